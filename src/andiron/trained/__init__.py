"""A trained run in Python: its weights in its network, its configuration, values and data."""

from andiron.trained.loading import load
from andiron.trained.trained_run import Run

__all__ = ["Run", "load"]
