"""Optimizers, rates by layer and noise on gradients that torch lacks."""

from andiron_lab.optim.adaptive import Adan, Lamb
from andiron_lab.optim.gradient_noise import noise
from andiron_lab.optim.layer_rates import layerwise

__all__ = ["Adan", "Lamb", "layerwise", "noise"]
