"""The learning rate as a function of the number of completed updates, t = 0, 1, 2, ...; pure, but for Plateau."""

from andiron.schedules.combinations import Composed, Sequential, Warmup, check_milestones, stateful
from andiron.schedules.single_curve import (
    Constant,
    Cosine,
    Exponential,
    Linear,
    Noam,
    Polynomial,
    Schedule,
    Step,
    from_value,
)
from andiron.schedules.multi_phase import CosineRestarts, OneCycle, WarmupStableDecay
from andiron.schedules.plateau import Plateau

__all__ = [
    "Composed",
    "Constant",
    "Cosine",
    "CosineRestarts",
    "Exponential",
    "Linear",
    "Noam",
    "OneCycle",
    "Plateau",
    "Polynomial",
    "Schedule",
    "Sequential",
    "Step",
    "Warmup",
    "WarmupStableDecay",
    "check_milestones",
    "from_value",
    "stateful",
]
