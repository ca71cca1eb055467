"""From a checked configuration to a recorded run folder and a trained model."""

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import rich.console  # noqa: F401  # its import draws from Python's generator: before the seed
from torch import nn

from andiron import errors, randomness
from andiron.distributed import World
from andiron.interrupter import Interrupter
from andiron.learner.position import Position
from andiron.optim.owners import group_table
from andiron.plain import wings
from andiron.protocols import Loader, Writer
from andiron.run_folder import RunFolder
from andiron.shell.assembly import (
    components, configured_learner, configured_store, resume_point,
)  # fmt: skip
from andiron.shell.assembly.components import Components
from andiron.shell.assembly.network import SizeLimit
from andiron.shell.cli import answers
from andiron.shell.config import quoting
from andiron.shell.config.leaves import Changes
from andiron.shell.config.schema import Train
from andiron.shell.config.signatures import signature
from andiron.shell.config.trust import Trust, nodes
from andiron.shell.run import lab_options, metadata, provenance, resume_policy, run_record
from andiron.shell.run.code_origin import Gathering
from andiron.shell.run.metadata import Files, Record, Show, Summary, Weights
from andiron.shell.run.status import Report, write_errors_explained

MODEL_VIEWS = "andiron_lab.views.model_views"  # layers, graph and embeddings of a model
log = logging.getLogger("andiron")


class Experiment:
    """A run that is built, in a folder that its command has claimed; `run` trains it.

    It hosts its learner: rank 0 records the run, with the further facts `of_record`, and writes the
    results. A run that `is_whole` has all its results.
    """

    is_recorded = True

    def __init__(
        self,
        config: Train,
        folder: RunFolder,
        built: Components,
        writers: Mapping[str, Writer],
        interrupter: Interrupter | None,
        *,
        is_whole: bool = False,
        **of_record: Any,
    ):
        self.folder, self.components = folder, built
        own = None if config.debug else config.checkpoint  # a run of debug=true has no mirror
        self._mirrored = configured_store.mirrored(own, folder)
        self.class_names = built.splits.offered.get("class_names")
        self.learner = configured_learner.learner(
            config, built, folder.path, writers, interrupter=interrupter,
            host=None if built.world.rank else self,
        )  # fmt: skip
        self.writers = self.learner.metric_log.writers
        self._is_whole = is_whole
        # a forward pass of parts needs every process
        self._views: Any = None if built.world.sharding else wings.optional(MODEL_VIEWS)
        self._report = Report()
        rates = self.learner.rates  # of the first update
        groups = group_table.param_groups(built.optimizer.groups, rates, built.schedule)
        self._record = None if built.world.rank else Record(
            config.recorded(), built.splits, built.device, groups, built.world.size,
            started=built.started, **of_record,
        )  # fmt: skip

    @property
    def is_done(self) -> bool:
        """Whether its updates and results are complete."""
        return self._is_whole and self.learner.is_over

    def run(self, report: Report | None = None) -> nn.Module:
        """The trained model; the summary and all weights are written to the folder.

        Updates `report` after the first update: a run that cannot be trained has failed by then.
        A run that is done stays as it is.
        """
        built, learner = self.components, self.learner
        if self.is_done:
            learner.close()
            return learner.model
        self._report = report or self._report
        with self._closed_after(), ExitStack() as at_end:
            for loader in built.loaders:
                at_end.callback(loader.close)
            sets = built.train, built.valid, built.test
            for step in learner.steps(*sets, more=built.more, is_watched=False):
                if not self._report.has_updated and step.kind in ("update", "skipped"):
                    learner.wait()
                    learner.interrupter.mark_begun()  # before: a signal meanwhile saves the run
                    self._report.updated(learner.metric_log.history.directions)
                    if self._views and self._record and self._record.updates is None:
                        self.writers.show_graph(lambda: self._views.graph(built))
        return learner.model

    def resume(self, load: Callable[[], Path], at: Position) -> Path:
        """The checkpoint that `load` continues from; its command has checked the changes."""
        return load()

    @contextmanager
    def training(self, train: Loader, at: Position, *, is_over: bool) -> Iterator["Experiment"]:
        """Records the run while its learner trains."""
        session = metadata.training(self.folder, self._report, self.writers, self._record)
        with self._mirrored, session:
            yield self

    def updated(self, directions: Mapping[str, str]) -> None:
        """The run has begun once observers too have taken the first update: see `run`."""

    def end(self, note: str | None) -> None:
        """After the training, before the results."""
        self._report.end(note)

    def write_results(self, summary: Summary, show: Show, weights: Weights) -> None:
        """Writes the summary and the weights; shows what the model makes of the validation data."""
        metadata.write_results(self.folder, summary, show, weights)
        valid, model = self.components.valid.undivided(), self.learner.model
        if self._views:
            self.writers.show_embeddings(
                lambda most: self._views.embeddings(model, valid, most, self.class_names)
            )

    @contextmanager
    def _closed_after(self) -> Iterator[None]:
        """Closes the learner after the body; a done or paused one with unwritten files has failed.
        """
        try:
            yield
        except errors.Interrupted as error:
            error.add("; ".join(self._close()))
            if error.outcome and isinstance(error, errors.Paused):  # its state is not saved
                raise errors.RunFolderError(error.outcome) from error
            raise
        except BaseException:
            self.learner.close()
            raise
        if unwritten := self._close():
            raise errors.RunFolderError("\n".join(unwritten))

    def _close(self) -> list[str]:
        """Closes the learner; a line with a remedy for each file that could not be written."""
        remedy = (
            "free space there, or raise `ulimit -f`; "
            f"{quoting.typed('resume', self.folder.path)} continues from the newest checkpoint"
        )
        return [f"{name} could not be written; {remedy}" for name in self.learner.close()]


def build(
    config: Train,
    run_dir: Path,
    *,
    interrupter: Interrupter | None = None,
    trusted: Trust | None = None,
    world: World | None = None,
) -> Experiment:
    """A new run in `run_dir`; with `trusted`, of a configuration read from another run's folder.

    With `fork_from`, it begins with the state of another run.
    In a `world` of several processes, all call it; rank 0 writes the record.
    Raises: ConfigError, DataError or DeviceError; RunFolderError without a run to fork.
    """
    folder, point = RunFolder(run_dir), None
    world, code = _begin(config, world)
    if forked := config.fork_from:
        own = trusted or Trust(tuple(config.trust))
        forks = lab_options.module("forks.fork_point", "fork_from")
        point = world.decided(lambda: forks.named(forked, own))
        built = point.build(config, own, world)
    else:
        built = components.build(config, trusted, world=world)
    with _assemble(config, folder, built, interrupter, code=code) as experiment:
        if point is not None:
            point.begin(experiment.learner, config, built)
    return experiment


def resume(
    config: Train,
    run_dir: Path,
    changes: Changes,
    *,
    others: Files | None = None,
    is_whole: bool = False,
    interrupter: Interrupter | None = None,
    trusted: Trust | None = None,
    world: World | None = None,
) -> Experiment:
    """The run in `run_dir` at its newest intact checkpoint; `changes` are its changed options.

    `others` are files that are recorded with them.
    If it `is_whole`, with all its results, it is done unless the changes give it more to do.
    In a `world` of several processes, all call it; rank 0 reads the checkpoint. With `trusted`, the
    configuration was read from the folder.
    Raises: ConfigError, DataError or DeviceError.
    """
    folder = RunFolder(run_dir)
    world, code = _begin(config, world)
    path, checkpoint = saved = world.decided(
        lambda: resume_point.newest(
            configured_store.store(config.checkpoint, folder.checkpoints, trusted),
            run_record.identity(folder),
        )
    )
    limit = SizeLimit.of(checkpoint.model, str(path))
    built = components.build(dataclasses.replace(config, start_from=None), trusted, limit, world)
    world.decided(lambda: provenance.check_data(folder, built.splits, changes))
    resume_point.check(config, built, checkpoint, changes)
    of_resume = {"updates": checkpoint.state["updates"], "changes": changes, "others": others or {}}
    options = {"is_whole": is_whole, "code": code, **of_resume}
    with _assemble(config, folder, built, interrupter, **options) as experiment:
        learner = experiment.learner
        resume_point.resume(learner, config, saved, changes)
        if experiment.is_done:
            return experiment
        if learner.is_over:
            resume_policy.check_applied(changes)
        learner.position.enter(built.train)
        start = f"resuming from {path}: {learner.position.within(built.train)}"
        resume_policy.log_start(start, changes, learner.position.batch)
    return experiment


def _begin(config: Train, world: World | None) -> tuple[World, Gathering | None]:
    """The world, and the code, gathered meanwhile; None in the processes that record nothing."""
    world = world or World(slices=config.slices)
    code = None if world.rank else Gathering()
    for *_, node in nodes(dataclasses.asdict(config)):
        signature(node["_target_"])  # imports code of the user's, which may draw: before the seed
    randomness.seed_others(config.seed)
    return world, code


@contextmanager
def _assemble(
    config: Train,
    folder: RunFolder,
    built: Components,
    interrupter: Interrupter | None,
    **options: Any,
) -> Iterator[Experiment]:
    """The experiment of built components; its files are closed if the body raises."""
    with write_errors_explained(folder), ExitStack() as on_failure:
        writers = {
            name: on_failure.enter_context(closing(configured_learner.writer(name, node, folder)))
            for name, node in (config.writers or {}).items()
        }
        if answers.are_asked() and built.world.rank == 0:
            writers[answers.FLAG] = answers.Points()
        yield Experiment(config, folder, built, writers, interrupter, **options)
        on_failure.pop_all()
    if config.show_layers:
        if (views := wings.optional(MODEL_VIEWS)) is None:
            log.warning("%s", wings.missing_lab("show_layers"))
        else:
            views.print_layers(built)
    if config.name is not None:
        log.info("run %s", config.name)
    log.info("run folder %s", folder.path)
    components.log_data(config, built)
