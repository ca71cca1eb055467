"""Optimizers that take gradients and a learning rate as arguments, and who owns which parameter."""

from andiron.optim.accumulator import GradientsAccumulator
from andiron.optim.averaging import Ema, Swa, WeightAverage
from andiron.optim.grouped import Group, GroupedOptimizer
from andiron.optim.layerwise import layerwise
from andiron.optim.optimizer import Optimizer
from andiron.optim.match_rules import Match, Rule, tag

__all__ = [
    "Ema", "Group", "GroupedOptimizer", "GradientsAccumulator", "Match", "Optimizer", "Rule", "Swa", "WeightAverage",
    "layerwise", "tag",
]  # fmt: skip
