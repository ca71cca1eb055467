"""From a checked configuration to a recorded run folder and a trained model."""

import dataclasses
import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import rich.console  # noqa: F401  # its import draws from Python's generator: before the seed
from torch import nn

from andiron import errors, randomness
from andiron.data import Splits
from andiron.distributed import World
from andiron.interrupter import Interrupter
from andiron.learner import Learner
from andiron.optim.owners import group_table
from andiron.plain import readable, wings
from andiron.run_folder import RunFolder
from andiron.shell.assembly import (
    components, configured_learner, configured_store, division, fork_point, resume_point,
)  # fmt: skip
from andiron.shell.assembly.components import Components
from andiron.shell.assembly.network import SizeLimit
from andiron.shell.cli import answers
from andiron.shell.config import quoting
from andiron.shell.config.leaves import Changes, leaves
from andiron.shell.config.schema import Train
from andiron.shell.config.signatures import signature
from andiron.shell.config.trust import Trust, nodes
from andiron.shell.run import metadata, resume_policy, run_record, session
from andiron.shell.run.code_origin import Gathering
from andiron.shell.run.metadata import Facts, Files
from andiron.shell.run.session import Record
from andiron.shell.run.status import Report, write_errors_explained
from andiron.writers import Writers

MODEL_VIEWS = "andiron_lab.views.model_views"  # layers, graph and embeddings of a model
MOST_CLASSES = 20  # named in a line
log = logging.getLogger("andiron")


@dataclass(frozen=True)
class Experiment:
    """A run that is built; `run` trains it.

    `record` is recorded then, by rank 0; `is_done` says that its updates and results are complete.
    """

    folder: RunFolder
    components: Components
    learner: Learner
    record: Record | None = None
    is_done: bool = False

    @property
    def writers(self) -> Writers:
        """The writers of the logged values."""
        return self.learner.metric_log.writers

    def facts(self, plain: Mapping[str, object], code: Gathering | None) -> Facts:
        """The facts for the record, with the options `plain`, before the first update."""
        built, rates = self.components, self.learner.rates
        groups = group_table.param_groups(built.optimizer.groups, rates, built.schedule)
        return Facts(
            plain, built.splits, built.device, groups, built.world.size, code, built.started
        )

    def run(self, report: Report | None = None) -> nn.Module:
        """The trained model; the summary and all weights are written to the folder.

        Updates `report` after the first update: a run that cannot be trained has failed by then.
        A run that is done stays as it is.
        """
        if self.is_done:
            self.learner.close()
            return self.learner.model
        report = report or Report()
        with self._closed_after(), ExitStack() as at_end:
            for loader in self.components.loaders:
                at_end.callback(loader.close)
            recorded = session.training(self.folder, report, self.writers, self.record)
            at_end.enter_context(recorded)
            self._train(report)
        return self.learner.model

    def _train(self, report: Report) -> None:
        """Trains to the end, and writes the results."""
        built, learner = self.components, self.learner
        is_new = self.record is not None and self.record.updates is None
        if is_new and (views := wings.optional(MODEL_VIEWS)):
            self.writers.show_graph(lambda: views.graph(built))
        for step in learner.steps(built.train, built.valid, built.test, more=built.more):
            if not report.has_updated and step.kind in ("update", "skipped"):
                learner.wait()
                learner.interrupter.mark_begun()  # before: a signal meanwhile saves the run
                report.updated()
        if built.world.rank == 0:
            self._write_results()
        report.end(learner.ending)

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

    def _write_results(self) -> None:
        class_names = self.components.splits.offered.get("class_names")
        valid = self.components.valid.undivided()
        self.learner.write_results(class_names)
        if views := wings.optional(MODEL_VIEWS):
            self.writers.show_embeddings(
                lambda most: views.embeddings(self.learner.model, valid, most, class_names)
            )


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
        point = world.decided(lambda: fork_point.named(forked, own))
        built = point.build(config, own, world)
    else:
        built = components.build(config, trusted, world=world)
    with _assemble(config, folder, built, interrupter) as experiment:
        facts = experiment.facts(dataclasses.asdict(config), code)
        if point is not None:
            point.begin(experiment.learner, config, built)
    return experiment if world.rank else dataclasses.replace(experiment, record=Record(facts))


def resume(
    config: Train,
    run_dir: Path,
    changes: Changes,
    others: Files | None = None,
    *,
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
    world.decided(lambda: metadata.check_data(folder, built.splits, changes))
    resume_point.check(config, built, checkpoint, changes)
    with _assemble(config, folder, built, interrupter) as experiment:
        learner = experiment.learner
        facts = experiment.facts(config.recorded(), code)  # with the rates of the first update
        resume_point.resume(learner, config, saved, changes)
        if learner.is_over:
            if is_whole:
                return dataclasses.replace(experiment, is_done=True)
            resume_policy.check_applied(changes)
        learner.position.enter(built.train)
        log.info("resuming from %s: %s", path, learner.position.within(built.train))
        resume_policy.warn_of_order(changes, learner.position.batch)
        record = Record(facts, others or {}, learner.updates, changes)
    return experiment if world.rank else dataclasses.replace(experiment, record=record)


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
    config: Train, folder: RunFolder, built: Components, interrupter: Interrupter | None
) -> Iterator[Experiment]:
    """The experiment of built components; its files are closed if the body raises."""
    with write_errors_explained(folder), ExitStack() as on_failure:
        writers = {
            name: on_failure.enter_context(closing(configured_learner.writer(name, node, folder)))
            for name, node in (config.writers or {}).items()
        }
        if answers.are_asked() and built.world.rank == 0:
            writers[answers.FLAG] = answers.Points()
        learner = configured_learner.learner(
            config, built, folder.path, writers, interrupter=interrupter
        )
        yield Experiment(folder, built, learner)
        on_failure.pop_all()
    if config.show_layers:
        if (views := wings.optional(MODEL_VIEWS)) is None:
            log.warning("%s", wings.missing_lab("show_layers"))
        else:
            views.print_layers(built)
    if config.name is not None:
        log.info("run %s", config.name)
    _log_data(built, folder)
    if config.lr not in dict(leaves(config.scheduler, opens_lists=True)).values():
        line = "lr=%g is used by no part of scheduler, which has rates of its own: %s"
        log.warning(line, config.lr, built.schedule)
    if config.grads_accumulation > len(built.train):
        line = "grads_accumulation=%d: an update takes the batches of one epoch at most, here %d"
        log.warning(line, config.grads_accumulation, len(built.train))


def _log_data(built: Components, folder: RunFolder) -> None:
    splits = built.splits
    division.warn(built.model, built.world)
    log.info("run folder %s", folder.path)
    sizes = ", ".join(f"{len(dataset)} {name}" for name, dataset in splits.by_name.items())
    log.info("data %s: %s, %s", splits.name, sizes, built.train.path)
    _log_classes(splits)
    shape = splits.facts.get("input_shape", ())
    if len(shape) == 3 and shape[2] in (1, 3, 4) and shape[0] == shape[1] > 4:
        log.warning(
            "samples of shape %s look like pictures with their channels last, and networks take "
            "the first dimension for channels: permute them", [*shape]
        )
    groups = built.optimizer.groups
    if len(groups) > 1:
        log.info("parameter groups: %s", "; ".join(map(group_table.summary, groups.values())))
    if splits.validates_on_test:
        log.warning(
            "data.valid=test: validation runs on the test set, so no number here comes from "
            "held-out data"
        )


def _log_classes(splits: Splits) -> None:
    """Logs the number of samples of each class that train, and the classes that a part lacks."""
    for part in ("train", "valid", "test"):
        counts = splits.counts_of(part) or []
        named = [*zip(splits.facts.get("class_names", range(len(counts))), counts)]
        if part == "train" and counts:
            shown = [f"{name} {count}" for name, count in named]
            log.info("%d classes: %s", len(counts), readable.joined(shown, MOST_CLASSES))
        if absent := [name for name, count in named if not count]:
            line = "%s has no sample of %d classes: %s"
            log.warning(line, part, len(absent), readable.joined(absent, MOST_CLASSES))
