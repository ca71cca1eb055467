"""The position of a run, by which everything random in it is determined."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from andiron import errors
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
