"""The learner: trains a model, and has its state, its summary and its checkpoints."""

import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from andiron.checkpoint.contents import Checkpoint
from andiron.checkpoint.store import Checkpointer
from andiron.data.loading.foreign_loader import ForeignLoader
from andiron.interrupter import Interrupter
from andiron.learner.evaluation import named_sets
from andiron.learner.extras import summary
from andiron.learner.extras.observers import Observers, Step
from andiron.learner.loop import Loop
from andiron.learner.run_host import NoHost, RunHost
from andiron.learner.saving import Saver
from andiron.learner.state import LearnerState
from andiron.learner.update import Updater
from andiron.optim.owners import group_table
from andiron.options import LearnerOptions
from andiron.protocols import Loader, Values

Batches = Loader | Iterable[Any]


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
        checkpointer: Checkpointer | None,
        interrupter: Interrupter,
        host: RunHost | None,
    ):
        self.model = state.model
        self.optimizer = state.optimizer
        self.updater = updater
        self.world = updater.world
        self.options = options
        self.position = state.position
        self.metric_log = state.metric_log
        self.early_stopping = state.early_stopping
        self.averages = state.averages
        self.checkpointer = checkpointer
        self.interrupter = interrupter
        self._state = state
        self._host = host or NoHost()
        self._saver = Saver(state, checkpointer, options.test_weights, updater.world)
        self._evaluation = ExitStack()  # holds other weights than those in training
        self._loop = Loop(
            updater,
            state,
            options,
            self._saver,
            interrupter=self.interrupter,
            evaluation=self._evaluation,
            host=self._host,
            finish=self._finish,
        )
        self.evaluator = self._loop.evaluator
        self._foreign: dict[int, ForeignLoader] = {}  # it keeps the iterable, and so its id
        self._steps: Callable[[], Generator[Step, None, None] | None] = lambda: None

    @property
    def is_over(self) -> bool:
        """Whether all updates are completed."""
        return self._loop.is_over

    @property
    def ending(self) -> str | None:
        """Why the run ended before its length was reached, if `end` or `max_time` ended it."""
        return self._loop.ending

    @property
    def updates(self) -> int:
        """The number of completed updates."""
        return self.position.updates

    @property
    def rates(self) -> dict[str, float]:
        """The learning rates of the next update, by group."""
        return self.updater.rates(self.position.updates)

    def fit(
        self,
        train: Batches,
        valid: Batches,
        test: Batches | None = None,
        *,
        more: Mapping[str, Batches] | None = None,
    ) -> nn.Module:
        """The model after training on `train`, validated on `valid`, measured on `test` at the end.

        `more` are the loaders of further validation sets, each named by `LearnerBuilder.valid_set`.
        It has its optimizer's evaluation weights, or the best ones if early stopping restores
        them.
        Raises: as `steps`.
        """
        for _ in self.steps(train, valid, test, more=more, is_watched=False):
            pass
        if not self._host.is_recorded:  # else shown with the results
            self.metric_log.show(self.summary())
        return self.model

    def evaluate(self, loader: Batches) -> Values:
        """The validation metrics over `loader`, of the weights that `fit` left; logged nowhere."""
        return self.evaluator.evaluate(self._adapted(loader))

    def predict(self, loader: Batches) -> Tensor:
        """The outputs for all samples of `loader`, in its order and on the CPU: [samples, ...].

        Raises: TypeError if the items of the model's `valid_step` have no `output`.
        """
        return self.evaluator.predict(self._adapted(loader))

    def best(self) -> nn.Module:
        """The model, now with the best checkpoint's weights; training continues with its own.

        Raises: DataError if no checkpoint has a finite value of the metric that chooses it;
        RunFolderError without checkpoints; RuntimeError within the loop, whose next updates and
        checkpoints would have these weights.
        """
        if self._loop.is_open:
            raise RuntimeError("best: the loop still trains this model; call it after the loop")
        self._evaluation.enter_context(self._saver.best()[0])
        return self.model

    def steps(
        self,
        train: Batches,
        valid: Batches,
        test: Batches | None = None,
        *,
        more: Mapping[str, Batches] | None = None,
        is_watched: bool = True,
    ) -> Generator[Step, None, None]:
        """The training loop: yields after each update and validation, and after the test.

        `more` are as in `fit`; each of these sets has a validation of its own. Unless it
        `is_watched`, a few updates may be made beyond the update that is yielded.
        The body of the caller's `for` runs between two updates. A loop that is left, by `break` or
        by an error, saves the state after the last completed update.
        Raises: TypeError for an iterator, which has no second epoch; ValueError for a loader
        without batches; MismatchError for a set without a loader, or a loader without its set;
        NonFiniteError by `on_nonfinite`; Interrupted, with the state saved, if `interrupter`
        requests a stop.
        """
        self._leave_steps()
        trained = self._adapted(train, is_trained=True)
        sets = named_sets(valid, more, self._state.validations)
        adapted = {name: self._adapted(loader) for name, loader in sets.items()}
        tested = None if test is None else self._adapted(test)
        observers = self._state.observers
        is_watched |= bool(observers or self.options.profile)
        steps = self._loop.steps(trained, adapted, tested, is_watched=is_watched)
        self._steps = weakref.ref(steps)  # weak, so that `break` closes it at once
        return self._observed(steps, observers) if observers else steps

    def end(self, reason: str) -> None:
        """Ends the run after the current update: it is validated, saved and tested.

        Call it between updates: in the body of a loop over `steps`, or in an observer. In several
        processes, each one's loop has to call it after the same update.
        """
        self._loop.end(reason)

    def training(self, train: Batches) -> AbstractContextManager[None]:
        """A context in which the model trains, progress is shown, and the run can be stopped.

        On exit every checkpoint is on the disk. Updates without `fit` need this context too.
        Raises: TypeError for an iterator, which has no second epoch; ValueError for a loader
        without batches; MismatchError for one with too few.
        """
        return self._loop.training(self._adapted(train, is_trained=True))

    def batches_of_epoch(self, train: Batches) -> Iterator[list[Any]]:
        """The batches left in the epoch, in groups for one update; the last may be short."""
        return self._loop.batches_of_epoch(self._adapted(train))

    def update(self, batches: Sequence[object], train: Batches) -> bool:
        """Makes one update outside `fit`, inside `training`; returns False if it was skipped."""
        return self._loop.update(batches, self._adapted(train))

    def exports(self) -> dict[str, dict[str, Tensor]]:
        """The weights to export by name: `model`, and `model-<average>` for each average."""
        averages = {f"model-{name}": a.state_dict() for name, a in self.averages.items() if a.count}
        model = self._state.evaluation_weights(copies=True)
        return self.world.whole({"model": model, **averages})

    def summary(self) -> dict[str, Any]:
        """Model, optimizers, length and time of the run; best and last value of every metric."""
        groups = group_table.param_groups(self.optimizer.groups, self.rates, self.updater.schedule)
        last, saver = self.updater.rates(max(self.updates - 1, 0)), self._saver
        return summary.summarise(
            self.metric_log, self.model, groups, last, saver.tested_epoch, saver.tested_average
        )

    def wait(self) -> None:
        """Waits until everything saved is written, or cannot be."""
        self._saver.wait()

    def _finish(self) -> None:
        """Writes the summary and all weights of a run that is over; shows the summary.

        Raises: RunFolderError if a file cannot be written.
        """
        # every process gathers the weights of a sharded model
        if self.is_over and (self._host.is_recorded or self.world.sharding):
            worst_classes = self.metric_log.answers.worst(self._host.class_names)
            content = {**self.summary(), "worst_classes": worst_classes}
            self._host.write_results(content, self.metric_log.show, self.exports())

    def state(self) -> Checkpoint:
        """Everything needed to resume from here, as copies."""
        return self._state.copies()

    def load(self, saved: Checkpoint) -> None:
        """Continues from a checkpoint; OwnershipError or ValueError for one of another learner."""
        self._evaluation.close()
        self._saver.load(saved)

    def resume(self, saved: tuple[Path, Checkpoint] | None = None) -> Path:
        """Continues from the newest intact checkpoint, with this seed; returns its folder.

        `saved` is that checkpoint if already read. The log is truncated when training starts.
        Raises: DataError if there is none; ConfigError for changes not allowed; as `load`.
        """
        self._evaluation.close()
        checkpoint = self._host.resume(partial(self._saver.resume, saved), self.position)
        self.position.seed = self.options.seed
        return checkpoint

    def close(self) -> list[str]:
        """Writes the last checkpoint and closes the writers; returns the failures."""
        lost = []
        try:
            self._leave_steps()
            if self.checkpointer and not self.checkpointer.close():
                lost.append(f"{self.checkpointer.store}: the newest checkpoint")
        finally:
            lost += self.metric_log.writers.close()
        return lost

    def _observed(
        self, steps: Generator[Step, None, None], observers: Observers
    ) -> Generator[Step, None, None]:
        """The steps, after the observers; an end that one of them asks for is agreed on."""
        for step in steps:
            is_last, world = step.batch == self.metric_log.progress.num_batches, self.world
            if observers.show(self, step, is_last=is_last) and world.any(self.ending is not None):
                reasons = world.gathered(self.ending)
                self.end(next(reason for reason in reasons if reason is not None))
            yield step

    def _adapted(self, batches: Batches, *, is_trained: bool = False) -> Loader:
        """The loader, or one around a torch DataLoader or another iterable of batches."""
        if isinstance(batches, Loader):
            return batches
        if id(batches) not in self._foreign:
            device = next(self.model.parameters()).device
            loader = self._foreign[id(batches)] = ForeignLoader(batches, self.options.seed, device)
            if is_trained:
                loader.warn()
        return self._foreign[id(batches)]

    def _leave_steps(self) -> None:
        """Ends a loop that the caller has left without closing it."""
        if steps := self._steps():
            steps.close()

    def __exit__(self, *error: object) -> None:
        self.close()
