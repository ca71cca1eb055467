"""Optimizers that take gradients and a learning rate as arguments, and who owns which parameter."""

from andiron.optim.gradient_mean import GradientsAccumulator
from andiron.optim.grouped import GroupedOptimizer
from andiron.optim.optimizer import Optimizer
from andiron.optim.own.averaging import Ema, Swa, WeightAverage
from andiron.optim.owners.group import Group
from andiron.optim.owners.match_rules import Match, Rule, tag
from andiron.optim.transformations import (
    centralise, chained, clip_global_norm, clip_norm, clip_value,
)  # fmt: skip

__all__ = [
    "Ema", "GradientsAccumulator", "Group", "GroupedOptimizer", "Match", "Optimizer", "Rule", "Swa",
    "WeightAverage", "centralise", "chained", "clip_global_norm", "clip_norm", "clip_value", "tag",
]  # fmt: skip
