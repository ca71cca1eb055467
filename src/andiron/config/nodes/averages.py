"""Averages of the weights."""

from andiron.config.nodes.kinds import Fraction, describes
from andiron.config.nodes.schedules import Horizon


@describes("andiron.optim.Ema")
class Ema:
    decay: Fraction
    warmup: bool = False


@describes("andiron.optim.Swa")
class Swa:
    start: Horizon
    every: Horizon = 1
