"""Learning rate schedules: functions of the number of completed updates, t = 0, 1, 2, ..."""

from andiron.schedules.combinations import (
    Composed,
    Sequential,
    Warmup,
    inner_updates,
    peak_rate,
    warn_of_length,
)
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
    stateful,
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
    "inner_updates",
    "from_value",
    "peak_rate",
    "stateful",
    "warn_of_length",
]
