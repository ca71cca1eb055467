"""The position of a run, what is due there, and the batches after it."""

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from andiron import errors
from andiron.interrupter import Interrupter
from andiron.learner.metric_log import MetricLog
from andiron.options import LearnerOptions
from andiron.plain.cadence import Cadence, Clock, Ticker, seconds_of
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


class Agenda:
    """When a run logs, validates, saves checkpoints and ends, by the counters of its position.

    Between events two comparisons are enough.
    """

    def __init__(
        self,
        options: LearnerOptions,
        validations: Mapping[str, Ticker],
        saves: Ticker,
        clock: Clock,
    ):
        self._options = options
        self.logs = Ticker(Cadence.of(options.log_every), clock)
        self._validations = validations
        self._saves = saves
        self.max_time = options.max_time
        self._clock = clock
        self._deadline = math.inf
        self.updates_per_epoch = 0  # of the data, known at `start`
        self.quiet_until: float = 0  # nothing else is due within an epoch before this update

    def start(self, at: Position, batches: int) -> tuple[int, int]:
        """Resolves cadences to updates; returns the run's length in epochs and in updates."""
        self.updates_per_epoch = math.ceil(batches / self._options.grads_accumulation)
        for ticker in (self.logs, *self._validations.values(), self._saves):
            ticker.resolve(self.updates_per_epoch)
        if self.max_time is not None:
            self._deadline = self._clock() + seconds_of(self.max_time)
        self.look_ahead(at)
        updates, epochs = self._options.num_updates, self._options.num_epochs or 0
        if updates is not None:
            return math.ceil(updates / self.updates_per_epoch), updates
        return epochs, epochs * self.updates_per_epoch

    def look_ahead(self, at: Position) -> None:
        """Finds the next log point and other event; a cadence in minutes is always checked."""
        tickers = self.logs, *self._validations.values(), self._saves
        _, *others = [ticker.look_ahead(at.updates) for ticker in tickers]
        is_timed = self.max_time or any(ticker.cadence.minutes is not None for ticker in tickers)
        self.quiet_until = 0 if is_timed else min(self._options.num_updates or math.inf, *others)

    def end_quiet(self) -> None:
        """Makes the loop look for its end after the next update."""
        self.quiet_until = 0

    def is_time_over(self) -> bool:
        """Whether this process has trained for `max_time`; under several, by rank 0's clock."""
        return self.max_time is not None and self._clock() >= self._deadline

    def due_sets(self, at: Position, epochs: int | None = None) -> list[str]:
        """The validation sets to measure: within an epoch, or at the end of one, after `epochs`.

        Before training these are all with `validate_first`, else none.
        """
        if at.updates == 0 and epochs is None:
            return self.unmeasured_sets(at) if self._options.validate_first else []
        sets = self._validations.items()
        return [name for name, ticker in sets if ticker.due(updates=at.updates, epochs=epochs)]

    def unmeasured_sets(self, at: Position) -> list[str]:
        """The validation sets not measured after the last update."""
        sets = self._validations.items()
        return [name for name, ticker in sets if not ticker.was_done(at.updates)]

    def is_length_reached(self, at: Position) -> bool:
        """Whether the run has completed its `num_updates`, or else its `num_epochs`."""
        options = self._options
        length = options.num_epochs if options.num_updates is None else options.num_updates
        return length is not None and self._progress(at)[0] >= length

    def is_whole(self, at: Position, batches: int) -> bool:
        """Whether the run takes all `batches` of the epoch."""
        updates = math.ceil((batches - at.batch) / self._options.grads_accumulation)
        return at.updates + updates <= (self._options.num_updates or math.inf)

    def reason_to_stop(
        self, at: Position, interrupter: Interrupter, is_over: bool
    ) -> errors.Interrupted | None:
        """Why to stop here: a request, or a pause of an unfinished run after a validation."""
        if reason := interrupter.at("train", at.updates, at.batch):
            return reason
        is_validated = self._validations["valid"].was_done(at.updates)
        return interrupter.pause(*self._progress(at)) if is_validated and not is_over else None

    def _progress(self, at: Position) -> tuple[int, str]:
        """The completed part of the run and its unit."""
        if self._options.num_updates is not None:
            return at.updates, "updates"
        return at.epoch, "epochs"


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
    batches, first_updates = iter(()), metric_log.progress.first_updates
    end: int | None = None  # the batch after the last group
    while True:
        asked = time.perf_counter()
        if at.batch != end:
            batches = iter(train.epoch(at.epoch, at.batch) if at.batch else train.epoch(at.epoch))
            if at.updates == first_updates:
                batches = refused(batches)
            batches = metric_log.traced(batches)
        if not (group := list(islice(batches, size))):
            return
        metric_log.throughput.waited += time.perf_counter() - asked
        at.take(len(group))
        end = at.batch
        yield group
