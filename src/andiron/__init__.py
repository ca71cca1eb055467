"""Andiron: a training stack for PyTorch that composes a run, watches it and keeps everything about
it.
"""

__version__ = "0.1.0"
