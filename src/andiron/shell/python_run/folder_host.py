"""The folder of a run from Python as the host of its learner: claimed while it trains."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from andiron import errors
from andiron.checkpoint import Checkpointer, Store, directory
from andiron.learner.construction import Choices
from andiron.learner.state import LearnerState
from andiron.learner.position import Position
from andiron.protocols import Loader
from andiron.run_folder import RunFolder
from andiron.shell.config.leaves import Changes, by_name
from andiron.shell.python_run import python_changes, python_record
from andiron.shell.python_run.python_record import Built
from andiron.shell.run import (
    claim, finished_run, metadata, resume_policy, run_files, run_record, status,
)  # fmt: skip
from andiron.shell.run.metadata import Record, Show, Summary, Weights
from andiron.writers import Writers

log = logging.getLogger("andiron")


def resume_or_start(resume: Callable[[], Path], folder: RunFolder, store: Store) -> None:
    """Calls `resume` if the store has a checkpoint, else leaves a new run to be started.

    Raises: RunFolderError if the run in the folder has trained.
    """
    if directory.names(store):
        resume()
    elif run_record.holds_run(folder) and not status.is_untrained(folder):
        raise errors.RunFolderError(
            f"{folder.path}: holds a run that has trained, and {store} has no checkpoint of it: "
            "restore one, make its place reachable, or give overwrite=True instead of resume=True "
            "to start again"
        )


def host_of(
    chosen: Choices, state: LearnerState, checkpointer: Checkpointer | None
) -> "FolderHost | None":
    """The host of a learner of this state, which the code that calls Andiron builds.

    None if this process writes nothing to the folder.
    """
    writes = checkpointer or chosen.writers is None
    if not writes or chosen.world.rank:
        return None
    schedule = getattr(state.schedule, "at_start", state.schedule)
    groups = state.optimizer.groups
    built = Built(chosen, state.model, groups, schedule, *python_record.caller())
    return FolderHost(built, state.metric_log.writers, checkpointer)


class FolderHost:
    """Claims the folder of a run while its learner trains, and keeps its status and log.

    The first training begins a new run, unless the learner has resumed; later ones continue it.
    Changes of a resumed run's options are recorded after the first update that has them.
    """

    class_names: Sequence[str] | None = None

    def __init__(self, built: Built, writers: Writers, checkpointer: Checkpointer | None):
        self._chosen = built.chosen
        self.folder = built.chosen.folder
        self.is_recorded = built.chosen.is_recorded
        self._writers = writers
        self._checkpointer = checkpointer
        self._unrecorded = built if self.is_recorded else None  # None once it is recorded
        self._has_run = False
        self._checkpoint: Path | None = None  # from which the run was resumed

    def resume(self, load: Callable[[], Path], at: Position) -> Path:
        """The checkpoint that `load` continues from, `at` a position; training continues the run.

        Raises: RunFolderError if another process trains it; ConfigError if options differ from
        the record and are not allowed to.
        """
        claim.settle(self.folder)
        claim.refuse_if_running(self.folder)
        if not run_record.holds_run(self.folder):  # written before Python runs had manifests
            run_record.begin(self.folder, lists_files=False)
        self._has_run = True
        self._changes(None)
        with run_files.guarded(self.folder):
            self._checkpoint = load()
        config = self.folder.config
        if self.is_recorded and at.batch_size is None and config.exists():  # of an earlier version
            at.batch_size = run_record.read_json(self.folder, config).get("batch_size")
        return self._checkpoint

    @contextmanager
    def training(
        self, train: Loader, at: Position, *, is_over: bool
    ) -> Iterator[status.Report | None]:
        """Claims the folder, and records the run; call the report's `updated` after an update.

        An error before that removes the new run, or restores the run that it replaces or resumes.
        A finished run that `is_over` stays as it is: None.
        Raises: RunFolderError if the folder holds a run and the learner neither replaces nor
        resumes it, holds files that no run wrote, or another process trains there; ConfigError as
        `resume`.
        """
        folder = self.folder
        holds_run = run_record.holds_run(folder)
        is_new, changes = not self._has_run, self._changes(train)
        with _messages_shown(), ExitStack() as stack:
            if self._has_run and is_over and holds_run:
                if finished_run.is_whole(folder):
                    finished_run.log_end(folder, self._chosen.options)
                    yield None
                    return
                resume_policy.check_applied(changes)
            report = stack.enter_context(self._claimed(holds_run))
            if self._checkpointer is not None:
                self._checkpointer.sign(run_record.identity(folder))
            self._writers.open()
            if self._checkpoint is not None:
                start = f"resuming from {self._checkpoint}: {at.within(train)}"
                resume_policy.log_start(start, changes, at.batch)
                self._checkpoint = None  # it is logged once
            record = self._record(train, at, changes)
            stack.enter_context(metadata.training(folder, report, self._writers, record))
            try:
                yield report
            except errors.Interrupted:
                if not holds_run:
                    report()  # its state was saved
                raise
            finally:
                if report.has_updated or (is_new and not report.is_untrained):
                    self._has_run, self._unrecorded = True, None  # further trainings continue it

    def write_results(self, summary: Summary, show: Show, weights: Weights) -> None:
        """Writes the summary and the weights, as `metadata.write_results`."""
        metadata.write_results(self.folder, summary, show, weights)

    def _claimed(self, holds_run: bool) -> AbstractContextManager[status.Report]:
        """Claims the folder to resume the run there, or for a new one."""
        folder = self.folder
        is_free = self._has_run or self._chosen.overwrite or status.is_untrained(folder)
        if holds_run and not is_free:
            raise errors.RunFolderError(
                f"{folder.path} already holds a run: give LearnerBuilder resume=True to continue "
                "it, overwrite=True to replace it, or no run_dir for a new folder"
            )
        if self._has_run:
            return claim.resumed(folder)
        return claim.claimed(folder, overwrite=self._chosen.overwrite)

    def _changes(self, train: Loader | None) -> Changes:
        """The changes since the run was recorded, as far as they are known without a loader.

        Raises: ConfigError if they are not allowed; DataError for other data.
        """
        if self._unrecorded is None or not (self._has_run and self.folder.config.exists()):
            return {}
        changes = python_changes.changes(self._unrecorded, train)
        resume_policy.check(changes, self._chosen.resume_allow, "in another run_dir")
        return by_name(changes)

    def _record(self, train: Loader, at: Position, changes: Changes) -> Record | None:
        """The record of the run, new or resumed; None if it is written already."""
        if self._unrecorded is None:
            return None
        is_resumed = self.folder.config.exists()
        resume = {"updates": at.updates, "changes": changes} if is_resumed else {}
        return python_record.record(self._unrecorded, train, **resume)


@contextmanager
def _messages_shown() -> Iterator[None]:
    """Prints warnings and how a run is resumed to stderr, unless the program logs itself."""
    handler, level = logging.StreamHandler(), resume_policy.log.level
    name = resume_policy.log.name
    handler.addFilter(lambda record: record.levelno >= logging.WARNING or record.name == name)
    if not log.hasHandlers():  # else the program prints them already
        log.addHandler(handler)
        resume_policy.log.setLevel(logging.INFO)
    try:
        yield
    finally:
        resume_policy.log.setLevel(level)
        log.removeHandler(handler)
