"""The values of every finished epoch, and which epoch was best."""

from dataclasses import dataclass, field

from andiron.protocols import Point


@dataclass
class History:
    """The epochs' own means, in order."""

    points: list[Point] = field(default_factory=list)

    def add(self, point: Point) -> None:
        """Keeps the point if it is an epoch's own mean."""
        if point.whole_epoch:
            self.points.append(point)

    def last(self, split: str, metric: str) -> Point | None:
        """The newest epoch in which the metric was measured on the split."""
        return next((point for point in reversed(self._of(split, metric))), None)

    def best(self, split: str, metric: str, *, higher_is_better: bool) -> Point | None:
        """The epoch with the best value, the earliest of equals."""
        points = self._of(split, metric)
        if not points:
            return None
        pick = max if higher_is_better else min
        return pick(points, key=lambda point: point.values[metric])

    def _of(self, split: str, metric: str) -> list[Point]:
        return [point for point in self.points if point.split == split and metric in point.values]
