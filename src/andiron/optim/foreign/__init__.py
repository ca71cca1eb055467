"""Optimizers of torch and of other packages: their steps, adapters and saved states."""
