"""Metrics of sequences of tokens."""
