"""Which checkpoints stay: decisions as data, acted on by the checkpointer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from andiron import errors, improvement
from andiron.checkpoint import step_names
from andiron.protocols import Values


@dataclass(frozen=True)
class Saved:
    """A checkpoint and what was measured when it was made: values by split, then by metric; none in the middle of an epoch.

    `number` counts those made after the same number of updates, from 1.
    """

    updates: int
    values: dict[str, Values] = field(default_factory=dict)
    number: int = 1

    @property
    def name(self) -> str:
        """That of its folder."""
        return step_names.name_of(self.updates, self.number)

    @property
    def plain(self) -> dict[str, Any]:
        """As a state has it."""
        return {"name": self.name, "updates": self.updates, "values": self.values}

    @classmethod
    def from_plain(cls, plain: Any) -> "Saved":
        """Raises: DataError for what `plain` never gives."""
        place = (
            step_names.place_of(plain["name"])
            if isinstance(plain, dict) and isinstance(plain.get("name"), str)
            else None
        )
        if place is None or not isinstance(plain.get("values"), dict):
            raise errors.DataError(
                f"the checkpoint lists {plain!r} among those kept with it; use another checkpoint"
            )
        return cls(place[0], plain["values"], place[1])


Strategy = Callable[
    [Sequence[Saved]], set[str]
]  # all checkpoints, oldest first, to the names of those that stay


@dataclass(frozen=True)
class KeepLast:
    """The newest `number` checkpoints.

    Raises: ValueError if that is none.
    """

    number: int

    def __post_init__(self) -> None:
        _check_count("last", self.number)

    def __call__(self, saved: Sequence[Saved]) -> set[str]:
        return {checkpoint.name for checkpoint in saved[-self.number :]}


@dataclass(frozen=True)
class KeepBest:
    """The checkpoint with the best finite value of a metric, the earliest of equals.

    Raises: ValueError for a direction that is none.
    """

    metric: str
    split: str = "valid"
    direction: str = "lowest"

    def __post_init__(self) -> None:
        if self.direction not in improvement.DIRECTIONS:
            allowed = " or ".join(improvement.DIRECTIONS)
            raise ValueError(
                f"direction={self.direction}: should be {allowed}; choose one of these"
            )

    def __call__(self, saved: Sequence[Saved]) -> set[str]:
        best, name = None, None
        for checkpoint in saved:
            value = checkpoint.values.get(self.split, {}).get(self.metric)
            if value is not None and improvement.is_better(value, best, self.direction):
                best, name = value, checkpoint.name
        return {name} if name else set()


@dataclass(frozen=True)
class KeepEvery:
    """For ever: the first checkpoint at or after each multiple of so many updates, where there is one before the next.

    Raises: ValueError if that is less than one update.
    """

    updates: int

    def __post_init__(self) -> None:
        _check_count("keep_every_updates", self.updates)

    def __call__(self, saved: Sequence[Saved]) -> set[str]:
        first: dict[int, str] = {}
        for checkpoint in saved:
            first.setdefault(checkpoint.updates // self.updates, checkpoint.name)
        return {name for multiple, name in first.items() if multiple >= 1}


@dataclass(frozen=True)
class Composed:
    """Every checkpoint that one of the strategies keeps."""

    strategies: tuple[Strategy, ...]

    def __call__(self, saved: Sequence[Saved]) -> set[str]:
        return set[str]().union(*(strategy(saved) for strategy in self.strategies))


def last_and_best(*, last: int, metric: str, split: str, direction: str) -> Composed:
    """The `last` newest checkpoints and the best by `metric` on `split`."""
    return Composed((KeepLast(last), KeepBest(metric, split, direction)))


def _check_count(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(
            f"{name}={value}: should be 1 or more; give a whole number, or leave the rule out"
        )
