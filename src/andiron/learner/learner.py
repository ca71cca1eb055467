"""The training loop, on one screen: `Learner.fit`."""

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from andiron import errors
from andiron.checkpoint import Checkpoint, Checkpointer
from andiron.interrupter import Interrupter
from andiron.learner import summary
from andiron.learner.agenda import Agenda
from andiron.learner.evaluation import Evaluator, check_loaders
from andiron.learner.saving import Saver
from andiron.learner.state import LearnerState
from andiron.learner.update import Updated, Updater
from andiron.optim import group_table
from andiron.plain.options import LearnerOptions
from andiron.protocols import Loader

Hook = Callable[[], None]


class Learner(AbstractContextManager["Learner"]):
    """Trains a model that has `train_step` and `valid_step`; built by `LearnerBuilder`.

    Its `position` counts completed updates and epochs, and the batches taken from the current
    epoch. Everything random is a function of the seed and those counters.
    """

    def __init__(
        self,
        updater: Updater,
        state: LearnerState,
        options: LearnerOptions,
        *,
        checkpointer: Checkpointer | None = None,
        interrupter: Interrupter | None = None,
    ):
        self.model = state.model
        self.optimizer = state.optimizer
        self.updater = updater
        self.options = options
        self.position = state.position
        self.metric_log = state.metric_log
        self.early_stopping = state.early_stopping
        self.averages = state.averages
        self.checkpointer = checkpointer
        self.interrupter = interrupter or Interrupter()
        self.evaluator = Evaluator(state, updater, self.interrupter)
        self._state = state
        self._saver = Saver(state, checkpointer, options.test_weights, updater.world)
        self._agenda = Agenda(options, state.validations, self._saver.ticker, updater.world.clock)
        self._evaluation = ExitStack()  # holds other weights than those in training

    @property
    def is_over(self) -> bool:
        """Whether all updates are completed."""
        return self._agenda.is_length_reached(self.position) or bool(self.early_stopping.decision)

    @property
    def updates(self) -> int:
        """The number of completed updates."""
        return self.position.updates

    @property
    def rates(self) -> dict[str, float]:
        """The learning rates of the next update, by group."""
        return self.updater.rates(self.position.updates)

    def fit(
        self, train: Loader, valid: Loader, test: Loader | None = None, begun: Hook | None = None
    ) -> nn.Module:
        """The model after training on `train`, validated on `valid`, measured on `test` at the end.

        It has its optimizer's evaluation weights, or the best ones if early stopping restores
        them. `begun` is called once, after the first update.
        Raises: TypeError for a loader without epochs; NonFiniteError by `on_nonfinite`;
        Interrupted, with the state saved, if `interrupter` requests a stop.
        """
        at, agenda, size = self.position, self._agenda, len(train)
        with self.training(train, valid, *([] if test is None else [test])):
            self._saver.save()  # the state to resume from before the first epoch is over
            self._validate_if_due(valid)
            while not self.is_over:
                for batches in self.batches_of_epoch(train):
                    is_last = at.batch == size
                    is_log_point = is_last or at.updates + 1 == agenda.next_log
                    updated = self.updater.update(batches, at, train, is_log_point, self.state)
                    self._count(updated, batches)
                    if begun is not None:
                        begun()
                        begun = None
                    is_quiet = not is_last and at.updates < agenda.quiet_until
                    if is_quiet and not (self.interrupter.asked or self.interrupter.is_watched):
                        continue
                    if not is_last:
                        self._validate_if_due(valid)
                        self._saver.save_if_due()
                    self.evaluator.grant_requests(valid, self._saver.save_on_request)
                    self._stop_if_asked()
                    if self.is_over:
                        break
                    agenda.look_ahead(at)
                if at.batch == size:
                    self._end_epoch(valid)
            self._end_run(valid)
            self._saver.save()
            with self._saved_if_interrupted():
                self._evaluation.enter_context(self.optimizer.evaluated())
                self._evaluation.enter_context(self.early_stopping.restored())
                if test is not None:
                    self.evaluator.validate(test, "test", self._saver.tested())
        return self.model

    @contextmanager
    def training(self, train: Loader, *others: Loader) -> Iterator[None]:
        """A context in which the model trains, progress is shown, and the run can be stopped.

        On exit every checkpoint is on the disk. Updates without `fit` need this context too.
        Raises: TypeError for a loader without epochs; MismatchError for one with too few batches.
        """
        check_loaders(train, *others)
        self._evaluation.close()
        self.updater.precision.apply()
        if not self.model.training:  # submodules frozen in evaluation mode stay so
            self.model.train()
        at = self.position
        at.check_within(len(train))
        length = self._agenda.start(at, len(train))
        epoch = at.epoch - (self.is_over and at.batch == 0)  # the last of a run that is over
        self.metric_log.start(train, length, epoch, at.updates, at.batch)
        with ExitStack() as at_end:
            at_end.callback(self.metric_log.stop)
            if self.checkpointer:
                at_end.callback(self.checkpointer.wait)
            self.interrupter.is_heard = True
            try:
                yield
            except BaseException:
                at.batch = at.first_batch  # the current update was not made
                raise
            finally:
                self.interrupter.is_heard = False

    def batches_of_epoch(self, train: Loader) -> Iterator[list[Any]]:
        """The batches left in the epoch, in groups for one update; the last may be short."""
        at = self.position
        self.metric_log.start_epoch(at.epoch, at.batch)
        self._stop_if_asked()
        batches = train.epoch(at.epoch, at.batch) if at.batch else train.epoch(at.epoch)
        batches = self.metric_log.traced(iter(batches))
        asked = time.perf_counter()
        while group := list(islice(batches, self.options.grads_accumulation)):
            self.metric_log.progress.waited += time.perf_counter() - asked
            at.batch += len(group)
            yield group
            asked = time.perf_counter()

    def update(self, batches: Sequence[Any], train: Loader) -> bool:
        """Makes one update outside `fit`, inside `training`; returns False if it was skipped."""
        at, agenda = self.position, self._agenda
        agenda.look_ahead(at)
        is_log_point = at.batch == len(train) or at.updates + 1 == agenda.next_log
        updated = self.updater.update(batches, at, train, is_log_point, self.state)
        self._count(updated, batches)
        return updated is not None

    def _count(self, updated: Updated | None, batches: Sequence[Any]) -> None:
        """Counts an update in the averages and the log; None stands for a skipped one."""
        at, metric_log, progress = self.position, self.metric_log, self.metric_log.progress
        at.first_batch = at.batch  # a resumed run begins with the next
        if updated is None:
            return
        for average in self.averages.values():
            average.update(self.model, at.updates)
        with torch.no_grad():  # an item that is not detached must not keep its graph alive
            for item, batch in zip(updated.items, batches, strict=True):
                metric_log.train_tally.add(item, batch)
        progress.updates = at.updates
        progress.batch += len(batches)
        progress.new_batches += len(batches)
        progress.new_updates += 1
        if updated.readings is not None:
            metric_log.log_window(updated.readings, updated.histograms)
            self._agenda.logged(at)

    def _validate_if_due(self, valid: Loader) -> None:
        if self._agenda.is_validation_due(self.position):
            with self._saved_if_interrupted():
                self.evaluator.validate(valid)
            self._observe()

    def _end_epoch(self, valid: Loader) -> None:
        at = self.position
        is_due = self._state.validations.due(updates=at.updates, epochs=at.epoch + 1)
        with self._saved_if_interrupted():
            self.metric_log.close_epoch()
            if is_due:
                self.evaluator.validate(valid)
        self.metric_log.epoch_ended()
        at.next_epoch()
        if is_due:
            self._observe()
        self._saver.save_if_due(at.epoch)

    def _end_run(self, valid: Loader) -> None:
        """Closes an unfinished last epoch, and validates unless the last update was validated."""
        at = self.position
        is_validated = self._state.validations.was_done(at.updates)
        with self._saved_if_interrupted():
            was_open = at.batch > 0 and self.metric_log.close_epoch()
            if not is_validated:
                self.evaluator.validate(valid)
        if was_open:
            self.metric_log.epoch_ended()
        if not is_validated:
            self._observe()

    def _observe(self) -> None:
        """Passes a validation to the early stopping rules."""
        at, latest = self.position, self.metric_log.latest
        with self.optimizer.evaluated():
            self.early_stopping.observe(latest, epoch=at.epoch + (at.batch > 0), updates=at.updates)

    def _stop_if_asked(self) -> None:
        if reason := self._agenda.reason_to_stop(self.position, self.interrupter, self.is_over):
            self._saver.save()
            raise reason

    @contextmanager
    def _saved_if_interrupted(self) -> Iterator[None]:
        """If the pass inside is interrupted, saves the state from before it, to repeat it."""
        before = self.metric_log.state_dict()
        try:
            yield
        except errors.Interrupted:
            self._evaluation.close()
            self._saver.save(before)
            raise

    def exports(self) -> dict[str, dict[str, Tensor]]:
        """The weights to export by name: `model`, and `model-<average>` for each average."""
        averages = {f"model-{name}": a.state_dict() for name, a in self.averages.items() if a.count}
        return {"model": self._state.evaluation_weights(copies=True)} | averages

    def summary(self) -> dict[str, Any]:
        """Model, optimizers, length and time of the run; best and last value of every metric."""
        groups = group_table.param_groups(self.optimizer.groups, self.rates, self.updater.schedule)
        last, epoch = self.updater.rates(max(self.updates - 1, 0)), self._saver.tested_epoch
        return summary.summarise(self.metric_log, self.model, groups, last, epoch)

    def state(self) -> Checkpoint:
        """Everything needed to resume from here, as copies."""
        return copy.deepcopy(self._state.capture())

    def load(self, saved: Checkpoint) -> None:
        """Continues from a checkpoint; OwnershipError or ValueError for one of another learner."""
        self._evaluation.close()
        self._saver.load(saved)

    def resume(
        self, found: tuple[Path, Checkpoint] | None = None, *, is_changed: bool = False
    ) -> Path:
        """Continues from the newest intact checkpoint and truncates the log; returns its folder.

        `found` is that checkpoint if already read; `fit` saves it again if it `is_changed`.
        Raises: DataError if there is none; errors of `load`, before anything is truncated.
        """
        self._evaluation.close()
        return self._saver.resume(found, is_changed)

    def close(self) -> list[str]:
        """Writes the last checkpoint and closes the writers; returns the failures."""
        lost = []
        try:
            if self.checkpointer and not self.checkpointer.close():
                lost.append(f"{self.checkpointer.store}: the newest checkpoint")
        finally:
            lost += self.metric_log.close()
        return lost

    def __exit__(self, *error: object) -> None:
        self.close()
