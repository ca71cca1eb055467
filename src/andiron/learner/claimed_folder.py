"""The folder of a run that Python code builds: claimed while the learner trains."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from andiron import errors
from andiron.checkpoint import Checkpointer
from andiron.protocols import Loader
from andiron.run import claim, python_record, run_record, status, written_files
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
    """

    def __init__(
        self,
        folder: RunFolder,
        writers: Writers,
        checkpointer: Checkpointer | None,
        *,
        overwrite: bool,
        built: Built | None = None,
    ):
        self.folder = folder
        self._writers = writers
        self._checkpointer = checkpointer
        self._overwrite = overwrite
        self._unrecorded = built  # None once it is recorded
        self.is_recorded = built is not None
        self._has_run = False

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """A context in which the run's files are cut to a checkpoint; training then continues it.

        Raises: RunFolderError if another process trains it.
        """
        claim.settle(self.folder)
        claim.refuse_if_running(self.folder)
        if not run_record.holds_run(self.folder):  # written before Python runs had manifests
            run_record.begin(self.folder, lists_files=False)
        with written_files.guarded(self.folder):
            yield
        self._has_run = True

    @contextmanager
    def claimed(
        self, train: Loader, updates: int, finish: Callable[[], None]
    ) -> Iterator[status.Report]:
        """Claims the folder, and records the run; call the yielded report after an update.

        An error before that removes the new run, or restores the run that it replaces. `updates`
        are completed; `finish` writes the results at the end.
        Raises: RunFolderError if the folder holds a run and the learner neither replaces nor
        resumes it, holds files that no run wrote, or another process trains there.
        """
        folder = self.folder
        holds_run = run_record.holds_run(folder)
        is_free = self._has_run or self._overwrite or status.is_untrained(folder)
        if holds_run and not is_free:
            raise errors.RunFolderError(
                f"{folder.path} already holds a run: give LearnerBuilder resume=True to continue "
                "it, overwrite=True to replace it, or no run_dir for a new folder"
            )
        again = claim.resumed(folder) if self._has_run else None
        logs = (folder.metrics, folder.metrics_csv, folder.tensorboard)
        opened = logs if self._writers.are_made else ()
        new = claim.claimed(folder, overwrite=self._overwrite, opened=opened)
        with again or new as report, _warnings_shown():
            if self._checkpointer is not None:
                self._checkpointer.sign(run_record.identity(folder))
            self._writers.open()
            with status.write_errors_explained(folder):
                self._record(train, updates)
            try:
                yield report
                finish()
                report()
            except (errors.Interrupted, GeneratorExit) as error:  # its session stays open
                if not holds_run and isinstance(error, errors.Interrupted):
                    report()  # its state was saved
                raise
            except BaseException:
                self._writers.end_session(succeeded=False)
                raise
            finally:
                if not report.is_untrained:  # a further training continues the run
                    self._has_run, self._unrecorded = True, None
            self._writers.end_session(succeeded=True)

    def _record(self, train: Loader, updates: int) -> None:
        """Records the run at its first training in this process."""
        if self._unrecorded is None:
            return
        if self.folder.config.exists():
            python_record.record_resume(self.folder, self._unrecorded, train, updates)
        else:
            python_record.record_start(self.folder, self._unrecorded, train, self._writers)


@contextmanager
def _warnings_shown() -> Iterator[None]:
    """Prints warnings to stderr: logging no longer does once a logger has the run's log file."""
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    if not log.parent or not log.parent.hasHandlers():  # else the program prints them already
        log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
