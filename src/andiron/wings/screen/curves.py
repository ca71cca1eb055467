"""The logged values of a run by split and name: curves, newest values, best values.

>>> curves = Curves({"accuracy": "highest"})
>>> for update, value in ((10, 0.5), (20, 0.75), (30, 0.625)):
...     curves.add("valid", update, epoch=1, values={"accuracy": value}, is_whole=True)
>>> curves.latest["valid"]["accuracy"], curves.best["valid", "accuracy"]
(0.625, Best(value=0.75, updates=20, epoch=1))
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from andiron.plain import improvement

# name prefixes of values that are not metrics
READINGS = ("lr", "grad_norm", "update_ratio", "time", "system")
MOST_POINTS = 2000  # of a curve; then every second point is dropped
MOST_CURVES, MOST_SPLITS = 2000, 100  # an untrusted file may name any number
# words in names of metrics for which lower is better, unless recorded otherwise
LOWER = ("loss", "error", "perplexity", "bits", "brier", "deviance", "distance")


@dataclass(frozen=True)
class Best:
    """The best value of a metric on a split, with its update and epoch."""

    value: float
    updates: int
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
    """Collects points as they are logged; `directions` has `highest` or `lowest` by metric."""

    def __init__(self, directions: Mapping[str, str] | None = None):
        self.directions = directions or {}
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
        is_mean_of_windows = split == "train" and is_whole
        self.updates, self.epoch = updates, epoch
        if is_mean_of_windows and epoch > 0:
            self.updates_per_epoch = updates / epoch
        for name, value in values.items():
            if "/" in name and name.partition("/")[0] in READINGS:
                self.readings[name] = value
            else:
                self.latest.setdefault(split, {})[name] = value
                if is_whole and self._is_best(split, name, value):
                    self.best[split, name] = Best(value, updates, epoch)
            if name in self.by_name or len(self.by_name) < MOST_CURVES:
                curves = self.by_name.setdefault(name, {})
                if not is_mean_of_windows and not split.startswith("test"):
                    curves.setdefault(split, Curve()).add(updates, value)

    @property
    def metrics(self) -> list[str]:
        """The names of metrics in order of arrival, without parts of metrics."""
        return [name for name in self.by_name if "/" not in name]

    @property
    def names(self) -> list[str]:
        """Every name with a curve: metrics first, then readings and parts of metrics."""
        drawn = (name for name, curves in self.by_name.items() if curves)
        return sorted(drawn, key=lambda name: "/" in name)

    def _is_best(self, split: str, name: str, value: float) -> bool:
        guess = "lowest" if any(word in name.lower() for word in LOWER) else "highest"
        direction = improvement.direction_of(name, self.directions) or guess
        best = self.best.get((split, name))
        return improvement.is_better(value, best.value if best else None, direction)
