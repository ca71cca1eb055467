"""The best epoch so far and the last, for every split and metric."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from andiron.metrics.direction import directions_of
from andiron.plain import improvement
from andiron.plain.plain_values import Named, Plain
from andiron.protocols import Metric, Point


@dataclass(frozen=True)
class Standing:
    """The best and last value of one metric on one split; epochs count from 1, earliest best.

    Epoch 0 is before the first update. The best is NaN for a metric without a direction.
    """

    best: float
    epoch_of_best: int
    last: float
    last_epoch: int


class History:
    """The standings after every epoch added."""

    def __init__(self, metrics: Sequence[Metric]):
        self.directions = directions_of(metrics)  # lowest or highest, by metric
        self.standings: dict[str, dict[str, Standing]] = {}

    def add(self, point: Point) -> None:
        """Counts the point if it is an epoch's own mean."""
        if not point.whole_epoch:
            return
        now = point.epoch if point.updates else 0
        split = self.standings.setdefault(point.split, {})
        for name, value in point.values.items():
            before = split.get(name, Standing(value, now, value, now))
            best, epoch = before.best, before.epoch_of_best
            direction = improvement.direction_of(name, self.directions)
            if direction is None:
                best, epoch = math.nan, now
            elif improvement.is_better(value, best if math.isfinite(best) else None, direction):
                best, epoch = value, now
            split[name] = Standing(best, epoch, value, now)

    def state_dict(self) -> Plain:
        """The standings as plain values."""
        return {
            split: {name: dict(vars(standing)) for name, standing in named.items()}
            for split, named in self.standings.items()
        }

    def load_state_dict(self, state: Mapping[str, Named]) -> None:
        """Continues from saved standings."""
        self.standings = {
            split: {name: Standing(**plain) for name, plain in named.items()}
            for split, named in state.items()
        }
