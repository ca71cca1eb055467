"""Parts of a data set, and the facts that are derived from them."""
