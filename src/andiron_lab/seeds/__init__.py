"""Differences between runs beyond the noise of their seeds, and what uses them."""
