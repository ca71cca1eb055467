"""Optimizers that torch lacks."""

from andiron_lab.optim.adaptive import Adan, Lamb

__all__ = ["Adan", "Lamb"]
