"""Additions to a training: measurements, observers, early stopping."""
