"""The training loop, on one screen: `Loop.steps`."""

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

from andiron.interrupter import Interrupter
from andiron.learner import saving
from andiron.learner.evaluation import Evaluator
from andiron.learner.extras import first_updates
from andiron.learner.extras.observers import Step
from andiron.learner.extras.unread_checks import UnreadChecks
from andiron.learner.position import Agenda, groups
from andiron.learner.run_host import RunHost, RunSession
from andiron.learner.state import LearnerState
from andiron.learner.update import Updated, Updater
from andiron.options import LearnerOptions
from andiron.protocols import Loader, Values

log = logging.getLogger("andiron")
Sets = Mapping[str, Loader]  # validation sets by name


class Loop:
    """Updates, validations, checkpoints and the test of one run, in their order.

    `evaluation` holds other weights than those in training; it is closed before they are trained.
    """

    def __init__(
        self,
        updater: Updater,
        state: LearnerState,
        options: LearnerOptions,
        saver: saving.Saver,
        *,
        interrupter: Interrupter,
        evaluation: ExitStack,
        host: RunHost,
        finish: Callable[[], None],
    ):
        self.evaluator = Evaluator(state, updater, interrupter)
        self._updater = updater
        self._state = state
        self._position = state.position
        self._metric_log = state.metric_log
        self._saver = saver
        self._accumulation = options.grads_accumulation
        self._interrupter = interrupter
        self._evaluation = evaluation
        self._host = host
        self._finish = finish
        self._begins: RunSession | None = None  # until its first update
        self.is_open = False  # within `training`
        self.ending: str | None = None  # why the run ends before its length is reached
        self._agenda = Agenda(options, state.validations, saver.ticker, updater.world.clock)

    @property
    def is_over(self) -> bool:
        """Whether all updates are completed."""
        is_ended = bool(self.ending or self._state.early_stopping.decision)
        return is_ended or self._agenda.is_length_reached(self._position)

    def end(self, reason: str) -> None:
        """Ends the run after the current update, as if its length were reached."""
        if not self.is_over:
            self.ending = reason
            self._agenda.end_quiet()
            log.info("ends after update %d: %s", self._position.updates, reason)

    def steps(
        self, train: Loader, sets: Sets, test: Loader | None, *, is_watched: bool = True
    ) -> Generator[Step, None, None]:
        """Trains to the end; the state is saved if the caller leaves. See `Learner.steps`."""
        at, agenda, logs, size = self._position, self._agenda, self._agenda.logs, len(train)
        updater, snapshot, interrupter = self._updater, self._state.copies, self._interrupter
        unread = None if is_watched else self._unread(train)
        with self.training(train), self._saved_at_its_ends():
            yield from self._measured(self._validate_if_due(sets))
            while not self.is_over:
                for batches in self.batches_of_epoch(train):
                    is_last = at.batch == size
                    is_log_point = is_last or at.updates + 1 == logs.next_update
                    if unread is None:
                        updated = updater.update(batches, at, train, is_log_point, snapshot)
                        yield self._counted(updated, batches)
                    else:
                        yield from self._deferred(unread, batches, is_log_point)
                    is_asked = interrupter.is_watched or updater.world.is_asked
                    is_quiet = not (is_last or is_asked) and at.updates < agenda.quiet_until
                    if unread is not None:
                        yield from self._read(waits=is_log_point or not is_quiet)[0]
                    if is_quiet:
                        continue
                    if not is_last:
                        yield from self._measured(self._validate_if_due(sets))
                        self._saver.save_if_due()
                    self.evaluator.grant_requests(sets, self._saver.save_on_request)
                    self._stop_if_asked()
                    if self.is_over:
                        break
                    agenda.look_ahead(at)
                if at.batch == size:
                    yield from self._measured(self._end_epoch(sets))
                    self._saver.save_if_due(at.epoch)
            yield from self._measured(self._end_run(sets))
            self._saver.save(saving.ENDS)
            with self._saver.saved_if_interrupted(self._evaluation):
                self._evaluation.enter_context(self._state.optimizer.evaluated())
                self._evaluation.enter_context(self._state.early_stopping.restored())
                if test is not None:
                    with self._saver.tested():
                        self.evaluator.validate({"test": test})
        yield from self._measured([] if test is None else ["test"])

    def _unread(self, train: Loader) -> UnreadChecks | None:
        """Where checks may be read later: batches wait, and nothing may write into them."""
        return self._updater.unread if getattr(train, "has_own_memory", False) else None

    @contextmanager
    def training(self, train: Loader) -> Iterator[None]:
        """A context in which the model trains, progress is shown, and the run can be stopped.

        On exit every checkpoint is on the disk. Updates without `fit` need this context too.
        Raises: MismatchError for a loader with too few batches.
        """
        self._evaluation.close()
        self._updater.precision.apply()
        (at := self._position).enter(train)
        self.ending, self._train = None, train
        length = self._agenda.start(at, len(train))
        self._state.start(length[1], self._agenda.updates_per_epoch)
        epoch = at.epoch - (self.is_over and at.batch == 0)  # the last of a run that is over
        with self._host.training(train, at, is_over=self.is_over) as session:
            self._begins = session
            with ExitStack() as at_end:
                if session is None:  # a finished run stays as it is
                    at_end.enter_context(self._saver.silenced())
                self._saver.rewind()
                self._metric_log.start(train, length, epoch, at.updates, at.batch)
                at_end.callback(self._metric_log.stop)
                at_end.callback(self._saver.wait)
                self.is_open = True
                try:
                    with self._interrupter.heard():
                        yield
                except BaseException:
                    self._read(waits=True)
                    at.give_back()
                    raise
                finally:
                    self.is_open = False
            if session is not None:
                session.end(self.ending)
                self._finish()

    def batches_of_epoch(self, train: Loader) -> Iterator[list[Any]]:
        """The batches left in the epoch, in groups for one update; the last may be short."""
        at = self._position
        self._metric_log.start_epoch(at.epoch, at.batch)
        self._stop_if_asked()
        size, refused = self._accumulation, self._refused
        yield from groups(train, at, self._metric_log, size, refused)

    def _refused(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches of this process's first epoch, once they fit the model; later ones are alike.
        """
        train, updater = self._train, self._updater
        updater.instruments.append(first_updates.NetworkFaults(updater.model, updater.instruments))
        is_whole = self._agenda.is_whole(self._position, len(train))
        parts = train, updater.model, updater.world, self._accumulation
        return first_updates.refused(batches, *parts, is_whole=is_whole)

    def update(self, batches: Sequence[object], train: Loader) -> bool:
        """Makes one update outside `fit`, inside `training`; returns False if it was skipped."""
        at, agenda = self._position, self._agenda
        agenda.look_ahead(at)
        is_log_point = at.batch == len(train) or at.updates + 1 == agenda.logs.next_update
        updated = self._updater.update(batches, at, train, is_log_point, self._state.copies)
        self._counted(updated, batches)
        return updated is not None

    def _deferred(
        self, unread: UnreadChecks, batches: Sequence[object], is_log_point: bool
    ) -> Iterator[Step]:
        """Makes an update that is counted once its check is read; the events until an error."""
        parts = self._train, is_log_point, self._state.copies, unread
        unread.begin()
        try:
            unread.add(self._updater.update(batches, self._position, *parts), batches)
        except Exception:
            unread.add()
            steps, is_undone = self._read(waits=True)
            yield from steps
            if not is_undone:  # else this update was rejected, or an earlier one
                raise

    def _read(self, *, waits: bool) -> tuple[list[Step], bool]:
        """Counts updates whose check is read; their events, and whether others were undone."""
        if (unread := self._updater.unread) is None:
            return [], False
        passed, is_undone = unread.read(waits=waits or self._begins is not None)
        return [self._counted(*made) for made in passed if made], is_undone

    def _counted(self, updated: Updated | None, batches: Sequence[object]) -> Step:
        """Counts an update in the log, None if it was skipped; after the first the run has begun.

        Its event has the values of a log point.
        """
        at, metric_log, progress = self._position, self._metric_log, self._metric_log.progress
        values: Values = {}
        if updated is not None:
            kept = getattr(self._train, "has_own_memory", False)
            for item, batch in zip(updated.items, batches, strict=True):
                metric_log.train_tally.add(item, batch, is_kept=kept)
            progress.updates += 1
            progress.batch += len(batches)
            metric_log.throughput.batches += len(batches)
            metric_log.throughput.updates += 1
            if updated.readings is not None:
                metric_log.log_window(updated.readings, updated.histograms)
                self._agenda.logs.done(at.updates)
                self._agenda.logs.look_ahead(at.updates)
                values = metric_log.latest.get("train", {}) | updated.readings
        if self._begins is not None:
            self._saver.wait()  # a run that has begun has a checkpoint
            self._begins.updated(metric_log.history.directions)
            self._begins = None
        if updated is None:
            return Step("skipped", at.updates, progress.epoch, at.batch, values)
        return Step("update", at.updates, progress.epoch, at.batch, values, updated.items)

    def _measured(self, splits: Iterable[str]) -> Iterator[Step]:
        """The events of passes that were just recorded."""
        updates, progress = self._position.updates, self._metric_log.progress
        for split in splits:
            kind: Literal["validation", "test"] = "test" if split == "test" else "validation"
            values = dict(self._metric_log.latest[split])
            yield Step(kind, updates, progress.epoch, progress.batch, values, split=split)

    def _validate_if_due(self, sets: Sets) -> Sets:
        """Measures the validation sets that are due within an epoch, and returns them."""
        if due := {n: sets[n] for n in self._agenda.due_sets(self._position)}:
            with self._saver.saved_if_interrupted(self._evaluation):
                self.evaluator.validate(due)
            for split in due:
                self._metric_log.validated(split)
            self._state.observe(due)
        return due

    def _end_epoch(self, sets: Sets) -> Sets:
        """Closes an epoch; measures the validation sets that are due, and returns them."""
        at = self._position
        due = {n: sets[n] for n in self._agenda.due_sets(at, at.epoch + 1)}
        with self._saver.saved_if_interrupted(self._evaluation):
            self._metric_log.close_epoch()
            self.evaluator.validate(due)
        self._metric_log.epoch_ended()
        at.next_epoch()
        self._state.observe(due)
        return due

    def _end_run(self, sets: Sets) -> Sets:
        """Closes an unfinished last epoch; measures sets unless they are, and returns those."""
        at = self._position
        if self._agenda.is_length_reached(at):
            self.ending = None
        due = {n: sets[n] for n in self._agenda.unmeasured_sets(at)}
        with self._saver.saved_if_interrupted(self._evaluation):
            was_open = at.batch > 0 and self._metric_log.close_epoch(is_whole=False)
            self.evaluator.validate(due)
        if was_open:
            self._metric_log.epoch_ended()
        self._state.observe(due)
        return due

    def _stop_if_asked(self) -> None:
        at, agenda = self._position, self._agenda
        if reason := agenda.reason_to_stop(at, self._interrupter, self.is_over):
            self._saver.save(saving.STOPS)
            raise reason
        if agenda.is_time_over():
            self.end(f"max_time={agenda.max_time} is over")

    @contextmanager
    def _saved_at_its_ends(self) -> Iterator[None]:
        """Saves the state before the first update, and if the caller leaves the loop."""
        try:
            self._saver.begin()
            yield
        except GeneratorExit:
            self._read(waits=True)
            self._saver.save(saving.STOPS)
            raise
