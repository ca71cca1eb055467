"""When checkpoints are made and which of them stay, as a config says it."""

import math
from dataclasses import dataclass

from andiron.checkpoint.strategies import Composed, KeepBest, KeepEvery, KeepLast, Strategy
from andiron.ranges import Count, Direction, Positive


@dataclass(frozen=True)
class Cadence:
    """A checkpoint after every so many updates, epochs, and minutes since the last one: whichever comes first.

    Raises: ValueError for a number that is not above 0, and if there is none at all.
    """

    updates: int | None = None
    epochs: int | None = 1
    minutes: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("every_updates", self.updates), ("every_epochs", self.epochs)):
            if value is not None and value < 1:
                raise ValueError(
                    f"{name}={value}: should be 1 or more; give a whole number, or null for no such cadence"
                )
        if self.minutes is not None and not 0 < self.minutes < math.inf:
            raise ValueError(
                f"every_minutes={self.minutes}: should be a finite number above 0; or null for no such cadence"
            )
        if self.updates is None and self.epochs is None and self.minutes is None:
            raise ValueError(
                "no checkpoint is ever due; give every_updates, every_epochs or every_minutes"
            )


@dataclass(frozen=True)
class Checkpointing:
    """Which checkpoints stay, and when there is to be one."""

    strategy: Strategy
    cadence: Cadence


def checkpointing(
    *,
    last: Count = 2,
    metric: str | None = "loss",
    split: str = "valid",
    direction: Direction | None = "lowest",
    keep_every_updates: Count | None = None,
    every_updates: Count | None = None,
    every_epochs: Count | None = 1,
    every_minutes: Positive | None = None,
) -> Checkpointing:
    """Checkpoints as often as the last three say, of which the others keep the newest, the best, and some for ever.

    `metric` null keeps no best one; the newest one always stays, for the run to go on from.
    Raises: ValueError for a number out of range.
    """
    rules: tuple[Strategy, ...] = (KeepLast(last),)
    if metric is not None:
        rules += (KeepBest(metric, split, direction or "lowest"),)
    if keep_every_updates is not None:
        rules += (KeepEvery(keep_every_updates),)
    return Checkpointing(Composed(rules), Cadence(every_updates, every_epochs, every_minutes))
