"""Averages of weights, frozen modules, rates by layer, and states as tensors by name."""
