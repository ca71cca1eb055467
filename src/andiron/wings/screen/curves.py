"""The logged values of a run by split and name: curves, newest values, best values.

>>> curves = Curves({"accuracy": "highest"})
>>> for update, value in ((10, 0.5), (20, 0.75), (30, 0.625)):
...     curves.add("valid", update, epoch=1, values={"accuracy": value}, is_whole=True)
>>> curves.latest["valid"]["accuracy"], curves.best["valid", "accuracy"]
(0.625, Best(value=0.75, epoch=1))
"""

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from andiron.plain import improvement

# name prefixes of values that are not metrics
READINGS = ("lr/", "grad_norm/", "update_ratio/", "time/", "system/")
MOST_POINTS = 2000  # of a curve; then every second point is dropped
MOST_CURVES, MOST_SPLITS = 2000, 100  # an untrusted file may name any number
MOST_WINDOWS = 100  # that the speed is a mean over


@dataclass(frozen=True)
class Best:
    """The best value of a metric on a split, and its epoch."""

    value: float
    epoch: int


@dataclass
class Curve:
    """One value over completed updates, thinned if it has many points."""

    updates: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, updates: int, value: float) -> None:
        """Appends a point."""
        if len(self.updates) >= MOST_POINTS:
            del self.updates[::2], self.values[::2]
        self.updates.append(updates)
        self.values.append(value)


class Curves:
    """Collects points as they are logged; `directions` has `highest` or `lowest` by metric.

    A metric without a direction has no best value.
    """

    def __init__(self, directions: Mapping[str, str] | None = None):
        self.directions = {} if directions is None else directions
        self.clear()

    def clear(self) -> None:
        """Forgets every point."""
        self.updates = self.epoch = 0  # of the newest point
        self.updates_per_epoch = 0.0  # known once an epoch is over
        self.by_name: dict[str, dict[str, Curve]] = {}  # curves by metric, then split
        self.latest: dict[str, dict[str, float]] = {}  # by split
        self.best: dict[tuple[str, str], Best] = {}
        self.readings: dict[str, float] = {}  # values other than metrics, such as lr/base

    def add(
        self, split: str, updates: int, epoch: int, values: Mapping[str, float], is_whole: bool
    ) -> None:
        """Adds the values of a point; `is_whole` if they are of an epoch or validation."""
        if split not in self.latest and len(self.latest) >= MOST_SPLITS:
            return
        self.updates, self.epoch = updates, epoch
        is_drawn = not split.startswith("test")
        if split == "train" and is_whole:  # the mean of windows that are drawn
            self.updates_per_epoch, is_drawn = updates / max(epoch, 1), False
        for name, value in values.items():
            if name.startswith(READINGS):
                self.readings[name] = value
            else:
                self.latest.setdefault(split, {})[name] = value
                if is_whole and self._is_best(split, name, value):
                    self.best[split, name] = Best(value, epoch)
            if is_drawn and (name in self.by_name or len(self.by_name) < MOST_CURVES):
                self.by_name.setdefault(name, {}).setdefault(split, Curve()).add(updates, value)

    @property
    def seconds_of_update(self) -> float:
        """The mean over recent windows but the first; 0 before there are two."""
        steps = self.by_name.get("time/step", {}).get("train", Curve())
        counts = [end - start for start, end in pairwise(steps.updates[-MOST_WINDOWS:])]
        seconds = map(operator.mul, counts, steps.values[-len(counts) :])
        return sum(seconds) / (sum(counts) or 1)

    @property
    def metrics(self) -> list[str]:
        """The names of metrics in order of arrival, without parts of metrics."""
        names = dict.fromkeys(name for values in self.latest.values() for name in values)
        return [name for name in names if "/" not in name]

    @property
    def names(self) -> list[str]:
        """Every name with a curve: metrics first, then readings and parts of metrics."""
        return sorted(self.by_name, key=lambda name: "/" in name)

    def _is_best(self, split: str, name: str, value: float) -> bool:
        direction = improvement.direction_of(name, self.directions)
        best = self.best.get((split, name))
        return direction is not None and improvement.is_better(
            value, best.value if best else None, direction
        )
