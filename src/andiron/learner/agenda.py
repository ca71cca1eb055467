"""When a run logs, validates, saves checkpoints and ends."""

import math
from collections.abc import Mapping

from andiron import errors
from andiron.interrupter import Interrupter
from andiron.learner.position import Position
from andiron.options import LearnerOptions
from andiron.plain.cadence import Cadence, Clock, Ticker, seconds_of


class Agenda:
    """Decides by the counters of a position; between events two comparisons are enough."""

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
