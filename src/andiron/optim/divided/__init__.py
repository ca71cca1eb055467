"""Parts of the mean of gradients where a batch is computed in slices or by processes."""
