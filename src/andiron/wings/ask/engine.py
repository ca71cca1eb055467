"""Makes updates of a run again, from its nearest checkpoint, in a scratch folder.

The run is only read. What it logged and saved meanwhile is compared with what is computed now.
"""

import dataclasses
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from andiron import errors, randomness, serialization
from andiron.checkpoint import contents, directory
from andiron.data import Splits
from andiron.data.loader import DataLoader
from andiron.distributed import World
from andiron.gradients import Gradients
from andiron.interrupter import Interrupter
from andiron.learner import Learner
from andiron.learner.extras.observers import Step
from andiron.learner.update import Position
from andiron.run_folder import RunFolder
from andiron.shell.assembly import (
    components, configured_learner, configured_store, devices, fork_point, resume_point,
)  # fmt: skip
from andiron.shell.assembly.components import Components
from andiron.shell.assembly.fork_point import ForkPoint
from andiron.shell.assembly.network import SizeLimit
from andiron.shell.assembly.resume_point import Saved
from andiron.shell.config import leaves
from andiron.shell.config.schema import Train
from andiron.shell.config.trust import Trust
from andiron.shell.run import applied_changes, log_file, metadata, provenance, run_record
from andiron.wings.comparison import bit_comparison
from andiron.wings.comparison.bit_comparison import Difference
from andiron.wings.runs.rerun import SAME_NUMBERS
from andiron.writers import JsonLinesWriter

MAY_CHANGE = (*SAME_NUMBERS, "num_epochs", "num_updates")  # within a stretch
AT_THE_END = {  # of a stretch, and nowhere else
    "_target_": "andiron.checkpoint.checkpointing", "metric": None, "last": 2,
    "every_epochs": None, "every_updates": 2**53,
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Update:
    """An update that is made again; `number` counts from 1, `epoch` and `first_batch` from 0."""

    number: int
    epoch: int
    first_batch: int
    learner: Learner
    train: DataLoader
    batches: Sequence[Any]
    splits: Splits  # the run's data, with its facts
    gradients: Gradients | None = None  # their mean, before clipping; None until it is computed
    items: Sequence[Any] = ()

    @property
    def indices(self) -> list[list[int]]:
        """The samples of each batch, as their indices in the training data."""
        numbers = range(self.first_batch, self.first_batch + len(self.batches))
        return [self.train.indices(self.epoch, number) for number in numbers]


class Instrument:
    """Sees each update of a stretch; an own one overrides what it needs."""

    def before(self, update: Update) -> None:
        """The model has the weights that the update begins with, and is about to be called."""

    def computed(self, update: Update) -> None:
        """The mean gradients are computed; the model still has its former weights."""

    def after(self, update: Update) -> None:
        """The update is made, or skipped as non-finite."""


@dataclasses.dataclass(frozen=True)
class Stretch:
    """Updates that were made again, and how what they gave differs from the run's own."""

    start: int  # completed updates of the checkpoint; 0: the beginning of the run
    last: int
    tensors: int  # of the state that the run saved after `last`; 0 if it saved none
    values: int  # logged ones that were compared
    differences: list[Difference]


class Recorded:
    """A run that can be asked; `trusted` says what its configuration may name.

    Raises: RunFolderError if a process trains it, or it cannot be made again; DataError or
    ConfigError for a damaged or changed record.
    """

    def __init__(self, folder: RunFolder, trusted: Trust):
        if log_file.is_held(folder.log):
            raise errors.RunFolderError(
                f"{folder.path}: a process still trains this run; ask it once it has ended"
            )
        self.folder, self.trusted = folder, trusted
        self.config = run_record.config(folder, trusted)
        origin = provenance.read(folder)
        self._changes = applied_changes.history(origin["resumes"])
        processes = (origin["resumes"] or [origin])[-1].get("processes", origin.get("processes", 1))
        if processes > 1 and self.config.slices is None:
            raise errors.RunFolderError(
                f"{folder.path}: {processes} processes trained this run without slices, and one "
                "process adds up in another order; ask a run that was started with slices"
            )
        self.store = configured_store.store(self.config.checkpoint, folder.checkpoints, trusted)

    @cached_property
    def saved(self) -> dict[int, str]:
        """The run's checkpoints by their completed updates; the newest of those that share one."""
        places = filter(None, map(contents.step_place, directory.names(self.store)))
        return {place[0]: contents.step_name(*place) for place in sorted(places)}

    def start_of(self, first: int) -> int:
        """The completed updates at which a stretch begins that makes update `first` again."""
        return max((updates for updates in self.saved if updates < first), default=0)

    def updates(
        self, first: int, last: int, *instruments: Instrument, start: int | None = None
    ) -> Stretch:
        """Makes the updates `first` to `last` again, counted from 1; shows them to instruments.

        It begins at the checkpoint of `start` updates, 0 for the beginning of the run; by default
        at the nearest. The updates between it and `first` are not shown.
        Raises: SelectionError for updates that the run has not made; RunFolderError where options
        changed meanwhile; ConfigError or DataError if the run cannot be made again here.
        """
        start = self.start_of(first) if start is None else start
        config = self._config_of(start, last)
        with TemporaryDirectory(prefix="andiron-ask-") as scratch, ExitStack() as at_end:
            at_end.enter_context(devices.deterministic(config.deterministic))
            again, interrupter = RunFolder(Path(scratch)), _StopsAfter(last)
            learner, built = self._built(config, start, again, interrupter)
            at_end.enter_context(learner)
            for loader in built.loaders:
                at_end.callback(loader.close)
            path, goal = self._saved_at(last) if last in self.saved else (None, None)
            interrupter.never_at = None if goal else len(built.train)
            interrupter.batch = goal.state["batch"] if goal else None
            watch = _Watch(first, last, instruments, learner, built)
            with suppress(errors.Interrupted):
                for step in learner.steps(built.train, built.valid, more=built.more):
                    watch.saw(step)
            learner.wait()
            if learner.updates < last:
                raise errors.SelectionError(
                    f"{self.folder.path}: ends after update {learner.updates}; name one up to it"
                )
            made = range(start + 1, last + 1)
            compared = bit_comparison.of_stretch(self.folder, again, made, path)
        return Stretch(start, last, *compared)

    def _config_of(self, start: int, last: int) -> Train:
        """The options with which the run made the updates after `start`, to make them once more.

        Raises: RunFolderError if they changed before `last`.
        """
        flat, within = dict(leaves.leaves(dataclasses.asdict(self.config))), []
        for name, values in self._changes.items():
            if any(start < update < last for update, _ in values) and name not in MAY_CHANGE:
                within.append(f"{name}: {applied_changes.as_text(values)}")
            flat[tuple(name.split("."))] = [v for update, v in values if update < last][-1]
        if within:
            raise errors.RunFolderError(
                f"{self.folder.path}: options changed within updates {start + 1} to {last} "
                f"({'; '.join(within)}); ask for updates on one side of the change"
            )
        config = Train(**leaves.nested(flat))
        return dataclasses.replace(
            config, checkpoint=AT_THE_END, render=None, writers=None, show_layers=False,
            profile=None, max_time=None, test_weights="last",
            start_from=None if start else config.start_from,
        )  # fmt: skip

    def _built(
        self, config: Train, start: int, again: RunFolder, interrupter: Interrupter
    ) -> tuple[Learner, Components]:
        """The learner of the run after `start` updates."""
        randomness.seed_others(config.seed)
        point, world = None, World(slices=config.slices)
        if start:
            point = ForkPoint(self.folder, config, self._saved_at(start))
        elif config.fork_from:
            point = fork_point.named(config.fork_from, self.trusted)
        if point is None:
            built = components.build(config, self.trusted, self._size_limit(), world)
        else:
            built = point.build(config, self.trusted, world)
        if not start:
            self._check_beginning(config, built)
        writers = {"json_lines": JsonLinesWriter(again.metrics)}
        learner = configured_learner.learner(
            config, built, again.path, writers, interrupter=interrupter
        )
        if point is not None:
            point.begin(learner, config, built)
        return learner, built

    def _size_limit(self) -> SizeLimit:
        """The most that a network of the run takes, from weights that it has saved."""
        if self.saved:
            path, saved = self._saved_at(max(self.saved))
            return SizeLimit.of(saved.model, str(path))
        if not self.folder.model.is_file():
            raise errors.RunFolderError(
                f"{self.folder.path}: has neither checkpoints nor weights; ask another run"
            )
        weights = serialization.load_tensors(self.folder.model)
        return SizeLimit.of(weights, str(self.folder.model))

    def _check_beginning(self, config: Train, built: Components) -> None:
        """Refuses other data or first weights than the run's."""
        metadata.check_data(self.folder, built.splits, {})
        recorded = provenance.read(self.folder)
        if config.start_from and built.started["start_from"] != recorded.get("start_from"):
            raise errors.DataError(
                f"start_from={config.start_from}: has other weights than this run began with; "
                "restore them"
            )

    def _saved_at(self, updates: int) -> Saved:
        return resume_point.of_run(
            self.store, self.saved[updates], run_record.identity(self.folder)
        )


class _StopsAfter(Interrupter):
    """Stops a learner after the update `last`, its validations included.

    `batch` is that of the epoch where the run saved its state: 0 after the end of an epoch.
    Without one, it stops anywhere but at `never_at`, the end of an epoch that is not closed.
    """

    is_watched = True

    def __init__(self, last: int):
        super().__init__()
        self._last = last
        self.batch: int | None = None
        self.never_at: int | None = None

    def at(self, split: str, updates: int, batch: int) -> bool:
        is_there = batch != self.never_at and self.batch in (None, batch)
        if split == "train" and (updates > self._last or updates == self._last and is_there):
            self.stop("every update that was asked for is made")
        return self.asked is not None


class _Watch:
    """Shows a learner's updates from `first` to `last` to instruments."""

    def __init__(
        self,
        first: int,
        last: int,
        instruments: Sequence[Instrument],
        learner: Learner,
        built: Components,
    ):
        self._shown = range(first, last + 1)
        self._instruments = instruments
        self._learner, self._built = learner, built
        self._update: Update | None = None
        self._compute = learner.updater.gradients
        if instruments:
            vars(learner.updater)["gradients"] = self._gradients

    def saw(self, step: Step) -> None:
        """Shows what was made, if it is an update."""
        if self._update is not None and step.kind in ("update", "skipped"):
            for each in self._instruments:
                each.after(self._update)
            self._update = None

    def _gradients(
        self, batches: Sequence[Any], position: Position, *given: Any, is_perturbed: bool = False
    ) -> tuple[Gradients, list[Any]]:
        """The mean gradients as the updater computes them, shown once for each update."""
        is_shown = position.updates + 1 in self._shown
        if is_perturbed or self._update is not None or not is_shown:  # or evaluated once more
            return self._compute(batches, position, *given, is_perturbed=is_perturbed)
        place = position.updates + 1, position.epoch, position.first_batch
        built = self._built
        update = Update(*place, self._learner, built.train, batches, built.splits)
        for each in self._instruments:
            each.before(update)
        gradients, items = self._compute(batches, position, *given)
        self._update = dataclasses.replace(update, gradients=gradients, items=items)
        for each in self._instruments:
            each.computed(self._update)
        return gradients, items
