"""Averages of weights, frozen modules, and states as tensors by name."""
