"""The progress of a run, counted by the learner, shown by a renderer; lines of other long loops."""

import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

Item = TypeVar("Item")
FIRST_SECONDS = 10.0  # before the first line; each interval is twice the one before
log = logging.getLogger("andiron")


@dataclass
class Progress:
    """The progress of a run: written by the learner, read by a renderer when it draws."""

    num_epochs: int
    num_batches: int = 0  # in a training epoch
    num_items: int = 0
    epoch: int = 1
    batch: int = 0
    updates: int = 0
    first_epoch: int = 1  # of this process, and how many of its batches were trained before
    first_batch: int = 0
    num_updates: int = 0  # of the whole run; skipped updates are not counted
    first_updates: int = 0  # completed before this process
    latest: dict[str, dict[str, float]] = field(default_factory=dict)  # by split
    measured: dict[str, int] = field(default_factory=dict)  # updates before the latest values

    def start_epoch(self, epoch: int, batch: int) -> None:
        """Moves to a place in an epoch, both counted from 0."""
        self.epoch, self.batch = epoch + 1, batch


def watched(items: Iterable[Item], what: str, total: int | None = None) -> Iterator[Item]:
    """The items; after ten seconds, and then ever more rarely, logs how many were used."""
    seconds, begun = FIRST_SECONDS, time.monotonic()
    for number, item in enumerate(items, 1):
        yield item
        if time.monotonic() - begun > seconds:
            seconds *= 2
            log.info("%s: %s%s", what, f"{number:,}", "" if total is None else f" of {total:,}")
