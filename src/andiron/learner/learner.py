"""The training loop, on one screen."""

import copy
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from andiron import errors, serialization
from andiron.checkpoint import Checkpoint, FileCheckpointer
from andiron.gradients import Gradients
from andiron.interrupter import Interrupter
from andiron.learner import evaluation, loaders, micro_batches, state, summary
from andiron.learner.nonfinite import Guard
from andiron.learner.metric_log import Journal
from andiron.learner.stopping import Stopping
from andiron.learner.group_statistics import Watch
from andiron.optim import GroupedOptimizer
from andiron.optim.averaging import WeightAverage
from andiron.optim.clipping import Clip
from andiron.protocols import Loader, Values
from andiron.schedules import Schedule


class Learner:
    """Trains a model that has `train_step` and `valid_step`; built by `LearnerBuilder`.

    Its state is the model's, the optimizers', `updates` (completed updates of the model), `epoch` (completed epochs) and
    `batch` (those taken of the epoch under way); everything random is a function of `seed`, those, and the batch's number
    in its update.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: GroupedOptimizer,
        schedule: Schedule,
        *,
        journal: Journal,
        checkpointer: FileCheckpointer | None = None,
        run_dir: Path | None = None,
        writes_summary: bool = False,
        num_epochs: int = 10,
        log_every: int = 20,
        seed: int = 42,
        grads_accumulation: int = 1,
        clip: Clip | None = None,
        sam: float | None = None,
        guard: Guard | None = None,
        averages: Mapping[str, WeightAverage] | None = None,
        histograms: bool = False,
        stopping: Stopping | None = None,
        interrupter: Interrupter | None = None,
    ):
        self.model: Any = model
        self.optimizer = optimizer
        self.schedule = schedule
        self.journal = journal
        self.checkpointer = checkpointer
        self.run_dir = run_dir
        self.writes_summary = writes_summary
        self.num_epochs = num_epochs
        self.log_every = log_every
        self.seed = seed
        self.grads_accumulation = grads_accumulation
        self.clip = clip
        self.sam = sam
        self.guard = guard or Guard()
        self.precision = self.guard.precision
        self.averages = dict(averages or {})
        self.histograms = histograms
        self.stopping = stopping or Stopping({}, model)
        self.interrupter = interrupter or Interrupter()
        self.updates = self.epoch = self.batch = 0
        self.loader: Loader | None = None  # where the batches of the epoch under way come from
        self.first_batch = 0  # the first batch of the update under way
        self._saved: tuple[int, int, int] | None = (
            None  # updates, epoch and batch of what was saved last
        )
        self._evaluation = (
            ExitStack()
        )  # entered while the model has other weights than those that are trained

    @property
    def rates(self) -> dict[str, float]:
        """The learning rate of every group that is not frozen, for the update to come."""
        return self.optimizer.learning_rates(self.schedule(self.updates), self.updates)

    @property
    def is_over(self) -> bool:
        """Whether no epoch is left to train."""
        return self.epoch >= self.num_epochs or self.stopping.decision is not None

    def fit(self, train: Loader, valid: Loader, test: Loader | None = None) -> nn.Module:
        """The model after at most `num_epochs` epochs over `train`, measured on `valid` after each and on `test` at the end.

        It comes back with the weights to be evaluated, where an optimizer has its own, or with those of the best epoch.
        Raises: TypeError for a loader without epochs; NonFiniteError when the loss or a gradient is no number; Interrupted,
        the state saved, when `interrupter` was told to stop.
        """
        loaders.check(train, valid, *([] if test is None else [test]))
        self._evaluation.close()
        self.precision.apply()
        if not self.model.training:  # a part of it that was frozen in evaluation mode stays so
            self.model.train()
        self.journal.start(
            train, self.epoch - self.is_over, self.updates, self.batch
        )  # of one that is over, its last
        with self._settling():
            self.save()  # what goes on from here can be taken up again before its first epoch is over
            while not self.is_over:
                self._train_epoch(train)
                self._end_epoch(valid)
            self.save()
            with self._saved_if_interrupted():
                self._evaluation.enter_context(self.optimizer.evaluated())
                self._evaluation.enter_context(self.stopping.restored(self.model))
                if test is not None:
                    evaluation.validate(self, test, "test")
        if self.writes_summary and self.run_dir:
            summary.leave(self, self.run_dir)
        trained: nn.Module = self.model
        return trained

    def _train_epoch(self, train: Loader) -> None:
        """The updates of the epoch that are left."""
        self.journal.start_epoch(self.epoch, self.batch)
        self._stop_if_asked()
        for batches in self.grouped(train):
            try:
                self.update(batches)
            except BaseException:
                self.batch = self.first_batch  # whoever goes on makes this update again
                raise
            if (
                self.checkpointer
                and self.batch < len(train)
                and self.checkpointer.due(self.updates)
            ):
                self.save()
            self._stop_if_asked()

    def _end_epoch(self, valid: Loader) -> None:
        with self._saved_if_interrupted():
            self.journal.log_window({})  # the short window that is left
            self.journal.close_train_epoch()
            evaluation.validate(self, valid, "valid")
        self.journal.epoch_ended()
        self.epoch, self.batch = self.epoch + 1, 0
        with self.optimizer.evaluated():
            self.stopping.observe(self.journal.progress.latest, self.epoch, self.model)
        checkpointer = self.checkpointer
        if checkpointer and (
            checkpointer.due(self.updates) or checkpointer.due_after_epoch(self.epoch)
        ):
            self.save()

    def grouped(self, train: Loader) -> Iterator[list[Any]]:
        """The batches left of the epoch, as many at a time as go into one update; the last group may be short."""
        self.loader = train
        batches = iter(
            train.epoch(self.epoch, self.batch) if self.batch else train.epoch(self.epoch)
        )
        while True:
            asked = time.perf_counter()
            group = list(islice(batches, self.grads_accumulation))
            if not group:
                return
            self.journal.waited(time.perf_counter() - asked)
            self.first_batch, self.batch = self.batch, self.batch + len(group)
            yield group

    def _stop_if_asked(self) -> None:
        if self.interrupter.at("train", self.updates, self.batch) and self.interrupter.asked:
            self.save()
            raise self.interrupter.asked

    @contextmanager
    def _saved_if_interrupted(self) -> Iterator[None]:
        """Where a pass that measures is left, the state before it is saved: it will be measured from its start."""
        before = self.journal.state_dict()
        try:
            yield
        except errors.Interrupted:
            self._evaluation.close()
            self.save(before)
            raise

    @contextmanager
    def _settling(self) -> Iterator[None]:
        """Within it the run can be asked to stop; afterwards what was saved is on the disk."""
        self.interrupter.is_heard = True
        try:
            yield
        finally:
            self.interrupter.is_heard = False
            try:
                if self.checkpointer:
                    self.checkpointer.wait()
            finally:
                self.journal.stop()

    def update(self, batches: Sequence[Any]) -> bool:
        """One update of the parameters by the mean gradients of `batches`; False if it was left out.

        Raises: NonFiniteError, the weights as they were, if `on_nonfinite` says so.
        """
        self.optimizer.thaw(self.updates)
        rates = self.rates
        gradients, items = self.gradients(batches)
        if not self.guard.passes(gradients):
            self.guard.leave_out(
                micro_batches.step(self, len(batches)), self.model, gradients, batches, self.state
            )
            return False
        watch = (
            Watch(self.optimizer, gradients, [*rates], histograms=self.histograms)
            if self._at_log_point()
            else None
        )
        clipped = (
            gradients if self.clip is None else self.clip(gradients)
        )  # the mean: clipping each part would bias it
        due = self.optimizer.due(rates, self.updates)
        with (
            torch.no_grad()
        ):  # an item that was not detached must not keep its graph alive in the metrics
            self.model = self.optimizer.step(
                due, self.model, clipped, lambda: self.gradients(batches)[0]
            )
            self.updates += 1
            self._updated(items)
        if watch is not None:
            self.journal.log_window(
                self._readings(rates, watch), watch.histograms() if self.histograms else None
            )
        return True

    def gradients(self, batches: Sequence[Any]) -> tuple[Gradients, list[Any]]:
        """The gradients to update by, and the batches' items; taken again for the same update they are the same."""
        return micro_batches.gradients(self, batches)

    def _updated(self, items: Sequence[Any]) -> None:
        self.guard.updated()
        for average in self.averages.values():
            average.update(self.model, self.updates)
        self.journal.trained(items, self.updates)

    def _at_log_point(self) -> bool:
        """Whether values are logged after the update under way: every `log_every`, and after an epoch's last."""
        is_last = self.loader is not None and self.batch == len(self.loader)
        return is_last or (self.updates + 1) % self.log_every == 0

    def _readings(self, rates: Mapping[str, float], watch: Watch) -> Values:
        return (
            {f"lr/{name}": lr for name, lr in rates.items()}
            | watch.readings()
            | self.guard.readings()
        )

    def measure(self, loader: Loader, split: str) -> Values:
        """The metrics' means over one pass through `loader` with the weights as they are, recorded as `split`."""
        return evaluation.measure(self, loader, split)

    def exports(self) -> dict[str, dict[str, Tensor]]:
        """The weights to keep, by name: `model`, and `model-<average>` for each average."""
        return state.exported(self)

    def state(self) -> Checkpoint:
        """Everything needed to go on from here, the caller's own."""
        return copy.deepcopy(state.captured(self, self.journal.state_dict()))

    def save(self, journal: tuple[dict[str, Any], dict[str, Tensor]] | None = None) -> None:
        """Has the checkpointer, if there is one, keep the state as it is, unless it did: at an epoch's edge with its values."""
        place = self.updates, self.epoch, self.batch
        if self.checkpointer and place != self._saved:
            values = {} if self.batch else dict(self.journal.progress.latest)
            self.checkpointer.save(
                self.updates, state.captured(self, journal or self.journal.state_dict()), values
            )
            self._saved = place

    def load(self, checkpoint: Checkpoint) -> None:
        """Goes on from a checkpoint: the next `fit` makes the updates that are left.

        Raises: OwnershipError if its optimizer state is of other groups; ValueError if it is of another model, averages or metrics.
        """
        self._evaluation.close()
        state.restore(self, checkpoint)
        if self.checkpointer:
            self.checkpointer.turn_back(self.updates)
        self._saved = self.updates, self.epoch, self.batch

    def resume(self, found: tuple[Path, Checkpoint] | None = None) -> Path:
        """Goes on from the newest whole checkpoint below `run_dir`, whose folder comes back; what was logged after it is removed.

        `found` is that one where it was looked up already. Raises: DataError if there is none; what `load` raises.
        """
        return state.resume(self, found)

    def save_file(self, path: Path | str, recorder: serialization.Recorder | None = None) -> None:
        """Writes the whole state to one file, in the format and precision of `recorder`; by default exactly, as safetensors."""
        (recorder or serialization.Recorder()).record(
            state.as_record(state.captured(self, self.journal.state_dict())), path
        )

    def load_file(self, path: Path | str) -> None:
        """Goes on from what `save_file` wrote, in whatever format and precision.

        Raises: DataError if it is no such file; what `load` raises.
        """
        self.load(state.from_record(serialization.load(path), Path(path)))

    def close(self) -> None:
        """Waits for the last checkpoint and closes the writers."""
        try:
            if self.checkpointer:
                self.checkpointer.close()
        finally:
            self.journal.close()

    def __enter__(self) -> "Learner":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
