"""Random changes to samples, functions of (seed, epoch, index)."""
