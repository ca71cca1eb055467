"""The configured retention and cadence of checkpoints.

>>> policy = checkpointing(last=1, metric=None, every="10minutes")
>>> policy.cadence
Cadence(updates=None, epochs=None, minutes=10.0)
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from andiron.checkpoint.store import LocalStore, Store
from andiron.checkpoint.strategies import AnyOf, KeepBest, KeepEvery, KeepLast, Strategy
from andiron.plain.cadence import EVERY_EPOCH, Cadence
from andiron.ranges import Count, Direction, Every, NonNegative


@dataclass(frozen=True)
class Checkpointing:
    """The retention strategy, the cadence, and the store of a folder."""

    strategy: Strategy
    cadence: Cadence = EVERY_EPOCH
    store: Callable[[Path], Store] = LocalStore


def checkpointing(
    *,
    last: Count = 2,
    metric: str | None = "loss",
    split: str = "valid",
    direction: Direction | None = "lowest",
    best: Count = 1,
    also_best: dict[str, Direction] | None = None,
    keep_every_updates: Count | None = None,
    every: Every = "1epochs",
    store: Callable[[Path], Store] | None = None,
    files: Literal["whole", "rank"] = "whole",
    mirror: str | None = None,
    mirror_wait: NonNegative = 60.0,
) -> Checkpointing:
    """Keeps the `last` checkpoints, the `best` by `metric` on `split`, and one at intervals.

    A null `metric` keeps no best one; `also_best` has the direction of each further metric whose
    `best` are kept; it chooses no weights. The newest is always kept, to resume from. `every` is
    the interval in updates, epochs or minutes: 500, 2epochs, 10minutes, or {updates: 500,
    minutes: 10} for whichever comes first. `store` is called with the folder of the checkpoints
    and returns a Store: a dotted name, or a node with `_partial_: true`; null is a local disk.
    With `strategy=fsdp` and files=rank each process writes a file of whole tensors.
    `mirror` is an address, such as s3://bucket/mine, to which a configured run copies them from
    that disk; its end waits `mirror_wait` seconds for the newest one.
    Raises: ValueError for a number out of range, `also_best` without `metric`, or a `mirror` of
    another `store`.
    """
    if mirror is not None and store is not None:
        raise ValueError(f"mirror={mirror}: copies from the local disk; leave out store={store}")
    rules: tuple[Strategy, ...] = (KeepLast(last),)
    if also_best and metric is None:
        raise ValueError(f"also_best={also_best}: metric is null; move one of these there")
    if metric is not None:
        followed: dict[str, Direction] = {metric: direction or "lowest", **(also_best or {})}
        rules += tuple(KeepBest(name, split, way, best) for name, way in followed.items())
    if keep_every_updates is not None:
        rules += (KeepEvery(keep_every_updates),)
    return Checkpointing(AnyOf(rules), Cadence.of(every), store or LocalStore)
