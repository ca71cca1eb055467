"""The folder of a run that Python code builds: claimed while the learner trains."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

from andiron import errors
from andiron.checkpoint import Checkpointer
from andiron.config import leaves
from andiron.config.options import LearnerOptions
from andiron.learner.update import Position
from andiron.protocols import Loader
from andiron.run import (
    claim, finished_run, python_changes, python_record, resume_policy, run_record, status,
    written_files,
)  # fmt: skip
from andiron.run.python_record import Built
from andiron.run_folder import RunFolder
from andiron.writers import Writers

log = logging.getLogger("andiron")


def folder_at(path: Path | str | None) -> RunFolder:
    """The folder at `path`, or outputs/<date>/<time>, as train.py names the folder of a run."""
    new = Path("outputs") / datetime.now().strftime("%Y-%m-%d/%H-%M-%S-%f")
    return RunFolder(new if path is None else Path(path))


class ClaimedFolder:
    """Claims the folder of a run while it trains, and keeps its status and log.

    The first training begins a new run, unless the learner has resumed; later ones continue it.
    Changes of a resumed run's options are recorded after the first update that has them.
    """

    def __init__(
        self,
        folder: RunFolder,
        writers: Writers,
        checkpointer: Checkpointer | None,
        options: LearnerOptions,
        overwrite: bool,
        allowed: Sequence[str],
        built: Built | None,
    ):
        self.folder = folder
        self._writers = writers
        self._checkpointer = checkpointer
        self._options = options
        self._overwrite = overwrite
        self._allowed = allowed  # options that a resumed run may change
        self._unrecorded = built  # None once it is recorded
        self.is_recorded = built is not None
        self._has_run = False
        self._checkpoint: Path | None = None  # from which the run was resumed

    def resumed(self, load: Callable[[], Path], at: Position) -> Path:
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
        with written_files.guarded(self.folder):
            self._checkpoint = load()
        if self.is_recorded and at.batch_size is None:  # of an earlier version
            at.batch_size = python_changes.batch_size(self.folder)
        return self._checkpoint

    @contextmanager
    def claimed(
        self, train: Loader, at: Position, finish: Callable[[], None], is_over: bool
    ) -> Iterator[status.Report | None]:
        """Claims the folder, and records the run; call the report's `updated` after an update.

        An error before that removes the new run, or restores the run that it replaces or resumes.
        `finish` writes the results at the end. A finished run that `is_over` stays as it is: None.
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
                    finished_run.log_end(folder, self._options)
                    yield None
                    return
                resume_policy.check_applied(leaves.by_name(changes))
            report = stack.enter_context(self._claimed(holds_run))
            if self._checkpointer is not None:
                self._checkpointer.sign(run_record.identity(folder))
            self._writers.open()
            with status.write_errors_explained(folder):
                report.record = self._record(train, at, changes)
            stack.enter_context(self._writers.session())
            try:
                yield report
                finish()
                report()
            except errors.Interrupted:
                if not holds_run:
                    report()  # its state was saved
                raise
            finally:
                if is_new and not report.is_untrained:  # further trainings continue the run
                    self._has_run, self._unrecorded = True, None

    def _claimed(self, holds_run: bool) -> AbstractContextManager[status.Report]:
        """Claims the folder to resume the run there, or for a new one."""
        folder = self.folder
        is_free = self._has_run or self._overwrite or status.is_untrained(folder)
        if holds_run and not is_free:
            raise errors.RunFolderError(
                f"{folder.path} already holds a run: give LearnerBuilder resume=True to continue "
                "it, overwrite=True to replace it, or no run_dir for a new folder"
            )
        if self._has_run:
            return claim.resumed(folder)
        logs = (folder.metrics, folder.metrics_csv, folder.tensorboard)
        opened = logs if self._writers.are_made else ()
        return claim.claimed(folder, overwrite=self._overwrite, opened=opened)

    def _changes(self, train: Loader | None) -> leaves.Differences:
        """The changes since the run was recorded, as far as they are known without a loader.

        Raises: ConfigError if they are not allowed; DataError for other data.
        """
        if self._unrecorded is None or not (self._has_run and self.folder.config.exists()):
            return {}
        changes = python_changes.changes(self.folder, self._unrecorded, train)
        resume_policy.check(changes, self._allowed, "in another run_dir")
        return changes

    def _record(
        self, train: Loader, at: Position, changes: leaves.Differences
    ) -> Callable[[], None]:
        """Records a new run; returns a function that records a resumed one."""
        if self._checkpoint is not None:
            resume_policy.log.info("resuming from %s: %s", self._checkpoint, at.within(train))
            for line in resume_policy.described(changes):
                resume_policy.log.info("changed: %s", line)
            resume_policy.warn_of_order(leaves.by_name(changes), at.batch)
            self._checkpoint = None
        if self._unrecorded is None:
            return lambda: None
        if not self.folder.config.exists():
            python_record.record_start(self.folder, self._unrecorded, train, self._writers)
            return lambda: None
        contents = python_record.resumed(
            self.folder, self._unrecorded, train, at.updates, leaves.by_name(changes)
        )

        def record() -> None:
            with status.write_errors_explained(self.folder):
                run_record.write(self.folder, contents)
            self._unrecorded = None

        return record


def _is_shown(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING or record.name == resume_policy.log.name


@contextmanager
def _messages_shown() -> Iterator[None]:
    """Prints warnings and how a run is resumed to stderr, unless the program logs itself."""
    handler, level = logging.StreamHandler(), resume_policy.log.level
    handler.addFilter(_is_shown)
    if not log.parent or not log.parent.hasHandlers():  # else the program prints them already
        log.addHandler(handler)
        resume_policy.log.setLevel(logging.INFO)
    try:
        yield
    finally:
        resume_policy.log.setLevel(level)
        log.removeHandler(handler)
