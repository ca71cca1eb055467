"""The batches of an epoch in groups for one update each."""

import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from andiron.learner.metric_log import MetricLog
from andiron.learner.position import Position
from andiron.protocols import Loader


def groups(
    train: Loader,
    at: Position,
    metric_log: MetricLog,
    size: int,
    refused: Callable[[Iterator[Any]], Iterator[Any]],
) -> Iterator[list[Any]]:
    """The batches left after the position, `size` a group; the last may be short.

    Where updates are undone between two groups, their batches follow again. `refused` checks the
    first epoch of this process.
    """
    batches, progress = iter(()), metric_log.progress
    end: int | None = None  # the batch after the last group
    while True:
        asked = time.perf_counter()
        if at.batch != end:
            batches = iter(train.epoch(at.epoch, at.batch) if at.batch else train.epoch(at.epoch))
            if at.updates == progress.first_updates:
                batches = refused(batches)
            batches = metric_log.traced(batches)
        if not (group := list(islice(batches, size))):
            return
        progress.waited += time.perf_counter() - asked
        at.take(len(group))
        end = at.batch
        yield group
