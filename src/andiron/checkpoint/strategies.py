"""Which checkpoints stay: decisions as data, acted on by the checkpointer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from andiron.protocols import Values


@dataclass(frozen=True)
class Saved:
    """A checkpoint and what was measured when it was made: values by split, then by metric."""

    updates: int
    values: dict[str, Values]


Strategy = Callable[[list[Saved]], set[int]]  # all checkpoints, oldest first, to the `updates` of those that stay


@dataclass(frozen=True)
class KeepLast:
    """The newest `number` checkpoints."""

    number: int

    def __call__(self, saved: list[Saved]) -> set[int]:
        return {checkpoint.updates for checkpoint in saved[-self.number :]}


@dataclass(frozen=True)
class KeepBest:
    """The checkpoint with the best value of a metric, the earliest of equals."""

    metric: str
    split: str = "valid"
    direction: Literal["lowest", "highest"] = "lowest"

    def __call__(self, saved: list[Saved]) -> set[int]:
        measured = [checkpoint for checkpoint in saved if self.metric in checkpoint.values.get(self.split, {})]
        pick = max if self.direction == "highest" else min
        best = pick(measured, key=lambda checkpoint: checkpoint.values[self.split][self.metric], default=None)
        return {best.updates} if best else set()


@dataclass(frozen=True)
class Composed:
    """Every checkpoint that one of the strategies keeps."""

    strategies: tuple[Strategy, ...]

    def __call__(self, saved: list[Saved]) -> set[int]:
        return set[int]().union(*(strategy(saved) for strategy in self.strategies))


def last_and_best(*, last: int, metric: str, split: str, direction: Literal["lowest", "highest"]) -> Composed:
    """The `last` newest checkpoints and the best by `metric` on `split`."""
    return Composed((KeepLast(last), KeepBest(metric, split, direction)))
