"""When checkpoints are made and which of them stay, as a config says it."""

from dataclasses import dataclass

from andiron.cadence import Cadence
from andiron.checkpoint.strategies import Composed, KeepBest, KeepEvery, KeepLast, Strategy
from andiron.ranges import Count, Direction, Positive


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
