"""Learning rate schedules: functions of the number of completed updates, t = 0, 1, 2, ..."""

from andiron.schedules.phased.combinations import (
    Composed,
    Sequential,
    Warmup,
    inner_updates,
    warn_of_length,
)
from andiron.schedules.phased.multi_phase import CosineRestarts, OneCycle, WarmupStableDecay
from andiron.schedules.phased.plateau import Plateau
from andiron.schedules.schedule import (
    Constant, Linear, Schedule, from_value, peak_rate, stateful,
)  # fmt: skip
from andiron.schedules.single_curve import Cosine, Exponential, Noam, Polynomial, Step

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
    "inner_updates",
    "from_value",
    "peak_rate",
    "stateful",
    "warn_of_length",
]
