"""Optimizers that take gradients and a learning rate as arguments."""

from andiron.optim.optimizer import Optimizer

__all__ = ["Optimizer"]
