"""The training loop, on one screen."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from andiron import errors, files, inference, randomness, schedules
from andiron.checkpoint import Checkpoint, FileCheckpointer
from andiron.gradients import Gradients
from andiron.learner import naming, state
from andiron.learner.guard import Guard, Step
from andiron.learner.journal import Journal
from andiron.learner.stopping import Stopping
from andiron.learner.summary import summarise
from andiron.learner.watch import Watch
from andiron.optim import GradientsAccumulator, GroupedOptimizer, group_table
from andiron.optim.averaging import WeightAverage
from andiron.optim.clipping import Clip
from andiron.optim.sam import perturbed
from andiron.protocols import Loader, Shows, TrainOutput, Values
from andiron.schedules import Schedule


class Learner:
    """Trains a model that has `train_step` and `valid_step`; built by `LearnerBuilder`.

    Its state is the model's, the optimizers', `updates` (completed updates of the model) and `epoch` (completed epochs);
    everything random is a function of `seed`, those two and the number of the batch in its update.
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
        self.updates = self.epoch = 0
        self._plan: Loader | None = None  # where the batches of the epoch come from
        self._first = self._taken = 0  # the first batch of the update under way, and how many were taken
        self._evaluation = ExitStack()  # entered while the model has other weights than those that are trained

    @property
    def rates(self) -> dict[str, float]:
        """The learning rate of every group that is not frozen, for the update to come."""
        return self.optimizer.learning_rates(self.schedule(self.updates), self.updates)

    def fit(self, train: Loader, valid: Loader, test: Loader | None = None) -> nn.Module:
        """The model after at most `num_epochs` epochs over `train`, measured on `valid` after each and on `test` at the end.

        It comes back with the weights to be evaluated, where an optimizer has its own, or with those of the best epoch.
        Raises: TypeError for a loader without epochs; NonFiniteError when the loss or a gradient is no number.
        """
        check_loaders(train, valid, *([] if test is None else [test]))
        self._evaluation.close()
        self.precision.apply()
        if not self.model.training:  # a part of it that was frozen in evaluation mode stays so
            self.model.train()
        self.journal.start(train, self.epoch, self.updates)
        try:
            while self.epoch < self.num_epochs and not self.stopping.decision:
                self.journal.start_epoch(self.epoch)
                for batches in self.grouped(train):
                    self.update(batches)
                self.journal.log_window({})  # the short window that is left
                self.journal.close_train_epoch()
                self.validate(valid, "valid")
                self.journal.epoch_ended()
                self.epoch += 1
                with self.optimizer.evaluated():
                    self.stopping.observe(self.journal.progress.latest, self.epoch, self.model)
                if self.checkpointer:
                    self.checkpointer.save(self.updates, self.state(), dict(self.journal.progress.latest))
            self._evaluation.enter_context(self.optimizer.evaluated())
            self._evaluation.enter_context(self.stopping.restored(self.model))
            if test is not None:
                self.validate(test, "test")
        finally:
            self._settle()
        if self.writes_summary and self.run_dir:
            self.summarise(self.run_dir)
        trained: nn.Module = self.model
        return trained

    def grouped(self, train: Loader) -> Iterator[list[Any]]:
        """The batches of the epoch, as many at a time as go into one update; the last group may be short."""
        self._plan, self._taken = train, 0
        batches = iter(train.epoch(self.epoch))
        while True:
            asked = time.perf_counter()
            group = list(islice(batches, self.grads_accumulation))
            if not group:
                return
            self.journal.waited(time.perf_counter() - asked)
            self._first, self._taken = self._taken, self._taken + len(group)
            yield group

    def _settle(self) -> None:
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
            self.guard.leave_out(self._step(len(batches)), self.model, gradients, batches, self.state)
            return False
        watch = Watch(self.optimizer, gradients, [*rates], histograms=self.histograms) if self._at_log_point() else None
        clipped = gradients if self.clip is None else self.clip(gradients)  # the mean: clipping each part would bias it
        due = self.optimizer.due(rates, self.updates)
        with torch.no_grad():  # an item that was not detached must not keep its graph alive in the metrics
            self.model = self.optimizer.step(due, self.model, clipped, lambda: self.gradients(batches)[0])
            self.updates += 1
            self._updated(items)
        if watch is not None:
            self.journal.log_window(self._readings(rates, watch), watch.histograms() if self.histograms else None)
        return True

    def gradients(self, batches: Sequence[Any]) -> tuple[Gradients, list[Any]]:
        """The gradients to update by, and the batches' items; taken again for the same update they are the same."""
        gradients, items = self._mean(batches)
        if self.sam is not None:
            with perturbed(self.model, gradients, self.sam):
                gradients, _ = self._mean(batches)
        return gradients, items

    def _mean(self, batches: Sequence[Any]) -> tuple[Gradients, list[Any]]:
        """The mean gradients of `batches` at the weights as they are, and their items."""
        randomness.start_stream(self.seed, "update", self.updates)
        if len(batches) == 1:
            output = self._train_step(batches[0])
            return output.gradients, [output.item]
        accumulator, items = GradientsAccumulator(), []
        for number, batch in enumerate(batches):
            if number:
                randomness.start_stream(self.seed, "update", self.updates, number)
            output = self._train_step(batch, number)
            accumulator.add(output.gradients, output.weight)
            items.append(output.item)
        return accumulator.mean(), items

    def _train_step(self, batch: Any, number: int = 0) -> TrainOutput:
        try:
            with self.precision.step():
                output: TrainOutput = self.model.train_step(batch)
        except errors.SampleError as error:
            raise naming.located(error, self._plan, self.epoch, self._first + number) from error
        return output

    def _updated(self, items: Sequence[Any]) -> None:
        self.guard.updated()
        for average in self.averages.values():
            average.update(self.model, self.updates)
        self.journal.trained(items, self.updates)

    def _at_log_point(self) -> bool:
        """Whether values are logged after the update under way: every `log_every`, and after an epoch's last."""
        is_last = self._plan is not None and self._taken == len(self._plan)
        return is_last or (self.updates + 1) % self.log_every == 0

    def _readings(self, rates: Mapping[str, float], watch: Watch) -> Values:
        return {f"lr/{name}": lr for name, lr in rates.items()} | watch.readings() | self.guard.readings()

    def _step(self, num_batches: int) -> Step:
        first = self._first
        indices = getattr(self._plan, "indices", None)  # a loader need not be able to tell
        samples = indices and [indices(self.epoch, first + number) for number in range(num_batches)]
        return Step(self.updates + 1, self.epoch + 1, first + 1, num_batches, samples)

    def validate(self, loader: Loader, split: str) -> None:
        """Measures the model on `loader` as `split`, and with each average of its weights as `split`-<average>."""
        with self.optimizer.evaluated():
            self.measure(loader, split)
        for name, average in self.averages.items():
            if not average.count:
                continue  # nothing but the initial weights so far
            with average.swapped_in(self.model):
                self.measure(loader, f"{split}-{name}")
        if split == "valid":
            self._show(split)
            for schedule in self.stateful_schedules:
                schedule.observe(dict(self.journal.progress.latest))

    def _show(self, split: str) -> None:
        """Writes the samples of a model that has some; what they draw has a stream of its own."""
        model: nn.Module = self.model
        if isinstance(model, Shows):
            randomness.start_stream(self.seed, "samples")
            with self.optimizer.evaluated(), inference.valid(self.model):
                self.journal.shown(split, model.samples())

    def measure(self, loader: Loader, split: str) -> Values:
        """The metrics' means over one pass through `loader` with the weights as they are, recorded as `split`."""
        with inference.valid(self.model) as model:
            for number, batch in enumerate(loader.epoch(0)):
                try:
                    with self.precision.autocast():
                        item = model.valid_step(batch)
                except errors.SampleError as error:
                    raise naming.located(error, loader, 0, number) from error
                self.journal.measured(item)
        return self.journal.close_pass(split)

    def exports(self) -> dict[str, dict[str, Tensor]]:
        """The weights to keep, by name: `model`, and `model-<average>` for each average."""
        return state.exported(self)

    def summarise(self, run_dir: Path) -> None:
        """Writes `run_dir`/summary.json and shows it."""
        summary = summarise(self.journal, self.model, run_dir, group_table.param_groups(self.optimizer.groups, self.rates))
        files.write_json(run_dir / "summary.json", summary)
        self.journal.show(summary)

    def state(self) -> Checkpoint:
        """Everything needed to go on from here."""
        return state.captured(self)

    def load(self, checkpoint: Checkpoint) -> None:
        """Goes on from a checkpoint: the next `fit` trains the epochs that are left.

        Raises: OwnershipError if its optimizer state belongs to other groups than these.
        """
        self._evaluation.close()
        state.restore(self, checkpoint)

    @property
    def stateful_schedules(self) -> list[schedules.Plateau]:
        """The schedules that have a state, those of groups included."""
        return [part for whole in (self.schedule, *self.optimizer.schedules) for part in schedules.stateful(whole)]

    def close(self) -> None:
        """Waits for the last checkpoint and closes the writers."""
        try:
            if self.checkpointer:
                self.checkpointer.close()
        finally:
            self.journal.close()

    def __enter__(self) -> "Learner":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def check_loaders(*loaders: object) -> None:
    """Refuses what is no loader of ours, such as torch's, whose order is no function of the epoch.

    Raises: TypeError naming the remedy.
    """
    for loader in loaders:
        if not isinstance(loader, Loader):
            raise TypeError(f"{type(loader).__name__} has no epochs; make it with andiron.data.DataLoaderBuilder")
