"""The builder of loaders, worker processes, and loaders of other packages."""
