"""The position of a run, which determines everything random in it, and the batches after it."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from andiron import errors
from andiron.learner.metric_log import MetricLog
from andiron.protocols import Loader, batch_size_of

log = logging.getLogger("andiron")


@dataclass
class Position:
    """The position of a run; with the seed, it determines everything random."""

    seed: int
    updates: int = 0  # completed
    epoch: int = 0  # completed
    batch: int = 0  # taken from the epoch under way
    first_batch: int = 0  # the first batch that no completed update has used
    batch_size: int | None = None  # None where the loader has none

    def state_dict(self) -> dict[str, int | None]:
        """The seed and the counters."""
        return {name: value for name, value in vars(self).items() if name != "first_batch"}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continues from saved counters."""
        vars(self).update({name: state.get(name) for name in self.state_dict()})
        self.first_batch = self.batch

    def enter(self, loader: Any) -> None:
        """Begins within an epoch where another batch size left it; no sample is skipped.

        Samples that are seen again, less than a batch, are counted in a warning.
        Raises: MismatchError for an epoch with fewer batches than were taken from it: it would
        never end.
        """
        before, size = self.batch_size, batch_size_of(loader)
        self.batch_size = size
        if self.batch and before is not None and size is not None and before != size:
            seen = min(self.batch * before, loader.num_items)
            self.batch = len(loader) if seen == loader.num_items else seen // size
            self.first_batch = self.batch
            if again := max(0, seen - self.batch * size):
                log.warning(
                    "batch_size=%d: epoch %d continues at a multiple of it, so that %d of its %d "
                    "samples so far are seen again; resume at the end of an epoch to see each once",
                    size, self.epoch + 1, again, seen,
                )  # fmt: skip
        if self.batch > len(loader):
            taken = f"{self.batch} batches are taken from an epoch of {len(loader)}"
            raise errors.MismatchError(f"{taken}: the state is of other data; train on those")

    def within(self, loader: Loader) -> str:
        """The position as text."""
        batches = f"{self.batch} of its {len(loader)} batches"
        return f"update {self.updates}, epoch {self.epoch + 1}, after {batches}"

    def take(self, batches: int) -> None:
        """Takes batches from the epoch, for an update that is made next."""
        self.batch += batches

    def give_back(self) -> None:
        """Gives back the batches of an update that was not made."""
        self.batch = self.first_batch

    def use(self, updates: int = 0) -> None:
        """Uses the batches taken, for a number of updates: a resumed run begins with the next."""
        self.first_batch = self.batch
        self.updates += updates

    def next_epoch(self) -> None:
        """Moves to the first batch of the next epoch."""
        self.epoch += 1
        self.batch = self.first_batch = 0


def groups(
    train: Loader,
    at: Position,
    metric_log: MetricLog,
    size: int,
    refused: Callable[[Iterator[Any]], Iterator[Any]],
) -> Iterator[list[Any]]:
    """The batches of an epoch left after the position, `size` an update; the last may be fewer.

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
