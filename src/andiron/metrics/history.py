"""For every split and metric: the best epoch so far, and the last."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from andiron.protocols import Metric, Point, Statistic


@dataclass(frozen=True)
class Standing:
    """What one metric has come to on one split; epochs count from 1, and of equals the earliest is best."""

    best: float
    epoch_of_best: int
    last: float
    last_epoch: int


class History:
    """The standings after every whole epoch that was added."""

    def __init__(self, metrics: Sequence[Metric | Statistic]):
        self._higher_is_better = {metric.name: metric.higher_is_better for metric in metrics}
        self.standings: dict[str, dict[str, Standing]] = {}

    def add(self, point: Point) -> None:
        """Counts the point if it is an epoch's own mean."""
        if not point.whole_epoch:
            return
        split = self.standings.setdefault(point.split, {})
        for name, value in point.values.items():
            best, epoch = value, point.epoch
            if name in split and not self._improves(name, value, split[name].best):
                best, epoch = split[name].best, split[name].epoch_of_best
            split[name] = Standing(best, epoch, value, point.epoch)

    def state_dict(self) -> dict[str, Any]:
        """The standings as plain values."""
        return {
            split: {name: dict(vars(standing)) for name, standing in named.items()}
            for split, named in self.standings.items()
        }

    def load_state_dict(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Goes on from saved standings."""
        self.standings = {
            split: {name: Standing(**plain) for name, plain in named.items()}
            for split, named in state.items()
        }

    def _improves(self, name: str, value: float, best: float) -> bool:
        metric = (
            name if name in self._higher_is_better else name.partition("/")[0]
        )  # recall/cat is a part of recall
        return value > best if self._higher_is_better[metric] else value < best
