"""Retention strategies: decisions as data, which the checkpointer acts on.

>>> saved = [Saved(10, {"valid": {"loss": 0.5}}), Saved(20, {"valid": {"loss": 0.9}}), Saved(30)]
>>> sorted(last_and_best(last=1, metric="loss", split="valid", direction="lowest")(saved))
['step-10', 'step-30']
"""

from __future__ import annotations  # help() shows them as they stand

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from andiron import errors
from andiron.checkpoint import contents
from andiron.protocols import Values
from andiron.ranges import Count, Direction, checked


@dataclass(frozen=True)
class Saved:
    """A checkpoint and the values of its validation by split and metric; empty if there was none.

    `number` counts the checkpoints at the same update, from 1.
    """

    updates: int
    values: dict[str, Values] = field(default_factory=dict)
    number: int = 1

    @property
    def name(self) -> str:
        """The name of the checkpoint's folder."""
        return contents.step_name(self.updates, self.number)

    @property
    def plain(self) -> dict[str, Any]:
        """The entry in a checkpoint's state."""
        return {"name": self.name, "updates": self.updates, "values": self.values}

    @classmethod
    def from_plain(cls, plain: Any) -> "Saved":
        """The checkpoint with these plain values.

        Raises: DataError for anything that `plain` never returns.
        """
        name = plain.get("name") if isinstance(plain, dict) else None
        place = contents.step_place(name) if isinstance(name, str) else None
        if place is None or not isinstance(plain.get("values"), dict):
            raise errors.DataError(
                f"the checkpoint lists {plain!r} among those kept with it; use another checkpoint"
            )
        return cls(place[0], plain["values"], place[1])


# from all checkpoints, oldest first, to the names of those to keep
Strategy = Callable[[Sequence[Saved]], set[str]]


def names_kept(strategy: Strategy, saved: Sequence[Saved]) -> set[str]:
    """The names that a strategy keeps. Raises: MismatchError if it gives none, or one text."""
    names: object = strategy(saved)
    if isinstance(names, str) or not isinstance(names, Collection):
        raise errors.MismatchError(
            f"checkpoint: {type(strategy).__name__} gives {names!r:.60}; a strategy gives "
            "the names of the checkpoints that it keeps, as a set"
        )
    return {*names}


@checked
@dataclass(frozen=True)
class KeepLast:
    """The newest `number` checkpoints.

    Raises: ValueError if that is less than 1.
    """

    number: Count

    def __call__(self, saved: Sequence[Saved]) -> set[str]:
        return {checkpoint.name for checkpoint in saved[-self.number :]}


@checked
@dataclass(frozen=True)
class KeepBest:
    """The `number` checkpoints with the best finite values of a metric, the earliest of equals.

    Raises: ValueError if the direction is neither highest nor lowest, or the number less than 1.
    """

    metric: str
    split: str = "valid"
    direction: Direction = "lowest"
    number: Count = 1

    def __call__(self, saved: Sequence[Saved]) -> set[str]:
        return {checkpoint.name for checkpoint in self.ranked(saved)[: self.number]}

    def ranked(self, saved: Sequence[Saved]) -> list[Saved]:
        """The checkpoints with a finite value, the best first; equals in the order of saving."""
        values = [one.values.get(self.split, {}).get(self.metric, math.nan) for one in saved]
        finite = [number for number, value in enumerate(values) if math.isfinite(value)]
        sign = 1 if self.direction == "lowest" else -1
        return [saved[number] for number in sorted(finite, key=lambda n: sign * values[n])]


@checked
@dataclass(frozen=True)
class KeepEvery:
    """The first checkpoint at or after each multiple of `updates` and before the next multiple.

    Raises: ValueError if that is less than 1.
    """

    updates: Count

    def __call__(self, saved: Sequence[Saved]) -> set[str]:
        first: dict[int, str] = {}
        for checkpoint in saved:
            first.setdefault(checkpoint.updates // self.updates, checkpoint.name)
        return {name for multiple, name in first.items() if multiple >= 1}


@dataclass(frozen=True)
class AnyOf:
    """Every checkpoint that any of the strategies keeps."""

    strategies: tuple[Strategy, ...]

    def __call__(self, saved: Sequence[Saved]) -> set[str]:
        return set[str]().union(*(names_kept(strategy, saved) for strategy in self.strategies))


def best(strategy: Strategy, saved: Sequence[Saved]) -> Saved | None:
    """The best checkpoint by the first metric of a strategy; None if it keeps none."""
    rules = keeping_best(strategy)[:1]
    return next((checkpoint for rule in rules for checkpoint in rule.ranked(saved)), None)


def keeping_best(strategy: Strategy | None) -> list[KeepBest]:
    """The rules of a strategy that keep the best checkpoint."""
    return [rule for rule in rules_of(strategy) if isinstance(rule, KeepBest)]


def rules_of(strategy: Strategy | None) -> Sequence[Strategy | None]:
    """The strategies that one combines; another is its own."""
    return strategy.strategies if isinstance(strategy, AnyOf) else [strategy]


def judged_average(strategy: Strategy | None) -> str:
    """The average of the weights whose values choose the best checkpoint; empty if none is."""
    rules = keeping_best(strategy)[:1]
    return rules[0].split.partition("-")[2] if rules else ""


def last_and_best(*, last: int, metric: str, split: str, direction: Direction) -> AnyOf:
    """The `last` newest checkpoints and the best by `metric` on `split`."""
    return AnyOf((KeepLast(last), KeepBest(metric, split, direction)))
