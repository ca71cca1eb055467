"""The status of a run in `status.json`, kept correct however the run ends."""

import errno
import logging
import os
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from andiron import errors
from andiron.disk import files
from andiron.plain.plain_values import Named, Plain
from andiron.plain.states import State
from andiron.run_folder import RunFolder
from andiron.shell.config import quoting
from andiron.shell.run import run_record

# by error; the limits of a process are shown by `ulimit -a`
REMEDIES = {
    errno.EFBIG: "raise the largest size of a file, `ulimit -f`",
    errno.EEXIST: "move it elsewhere",
    errno.EMFILE: "raise the number of open files, `ulimit -n`",
}
UNTRAINED = "untrained"  # true in status.json until the first update
MIRRORED = "mirrored"  # what is there of `checkpoint.mirror`
DIRECTIONS = "directions"  # of each metric: whether its lowest or highest value is best
log = logging.getLogger("andiron")


def now() -> str:
    """The time in UTC, to a millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def read(folder: RunFolder) -> Plain:
    """The content of status.json; empty if it is missing or damaged."""
    try:
        status = files.read_json(folder.status)
    except (OSError, ValueError, RecursionError):  # no run, or one that was killed while writing
        return {}
    return status if isinstance(status, dict) else {}


def is_untrained(folder: RunFolder) -> bool:
    """Whether the process of the run ended, or was killed, before its first update."""
    status = read(folder)
    if not folder.status.exists() and run_record.holds_run(folder):
        manifest = run_record.manifest_of(folder)
        listed = [folder.path / name for name in (*manifest.entries, *(manifest.written or ()))]
        # killed before it had one, or when all its files were removed
        status = {UNTRAINED: not any(map(os.path.lexists, listed))}
    return status.get(UNTRAINED) is True and not _has_trained(folder)


def _has_trained(folder: RunFolder) -> bool:
    """Whether files show an update, also if the status could not be written after it."""
    saved = (*folder.checkpoints.glob("step-[1-9]*"), *folder.tensorboard.glob("train/*"))
    return folder.summary.exists() or bool(saved)


@dataclass
class Report:
    """The status of a run that this process trains; `is_untrained` until its first update.

    It is called once the run has begun, or ends without an update; `updated` after the first one.
    The first call of an untrained run calls `begin`.
    `record` writes the record of a resumed run.

    `note` is why a run is done before its length is reached.
    """

    begin: Callable[[], None] = lambda: None
    record: Callable[[], None] = lambda: None
    is_untrained: bool = False
    has_begun: bool = False
    has_updated: bool = False
    note: str | None = None
    directions: Mapping[str, str] = field(default_factory=dict)
    started: str = field(default_factory=now)

    def __call__(self) -> None:
        self.has_begun = True
        if self.is_untrained:
            self.is_untrained = False
            self.begin()

    def updated(self, directions: Mapping[str, str]) -> None:
        """After the first update, to which the options of a resumed run have applied."""
        self.directions = directions
        self.record()
        self()
        self.has_updated = True

    def end(self, note: str | None) -> None:
        """After the training; `note` is why it ended before its length was reached."""
        self.note = note

    def write(self, folder: RunFolder, **ended: object) -> None:
        """Writes status.json: the run is running, or `ended`."""
        running = {"status": State.RUNNING, "reason": None, "pid": os.getpid()}
        marked = {UNTRAINED: True} if self.is_untrained else {}
        before = read(folder)
        kept = {name: before[name] for name in (MIRRORED, DIRECTIONS) if name in before}
        kept |= {DIRECTIONS: dict(self.directions)} if self.directions else {}
        write(folder, running | {"started": self.started} | marked | kept | ended)


@contextmanager
def reported(folder: RunFolder, report: Report) -> Iterator[None]:
    """Writes to status.json and to the log how the body ends: done, paused, interrupted or failed.
    """
    try:
        yield
    except BaseException as error:
        verdict = State.FAILED if isinstance(error, Exception) else State.INTERRUPTED
        verdict = State.PAUSED if isinstance(error, errors.Paused) else verdict
        is_left = isinstance(error, GeneratorExit)
        reason = "its loop was left" if is_left else errors.reason(error)
        marked = {State.DIVERGED: True} if isinstance(error, errors.NonFiniteError) else {}
        report.write(folder, status=verdict, reason=reason, ended=now(), **marked)
        log.error("%s: %s", verdict, reason)
        log.debug("%s", "".join(traceback.format_exception(error)))
        raise
    report.write(folder, status=State.DONE, reason=report.note, ended=now())


def write(folder: RunFolder, content: Named) -> None:
    """Replaces status.json; if the disk is full, that is logged and the run's own error stays."""
    try:
        files.write_json(folder.status, content)
    except OSError as error:
        log.warning("%s could not be written (%s): %s", folder.status, error.strerror, content)
        if UNTRAINED not in content and read(folder).get(UNTRAINED):  # no longer true
            with suppress(OSError):
                folder.status.unlink()


def write_killed(folder: RunFolder, reason: str, state: State = State.INTERRUPTED) -> None:
    """Writes the last status of a run whose process exits immediately."""
    before = {"started": now(), "pid": os.getpid()} | read(folder)
    write(folder, before | {"status": state, "reason": reason, "ended": now()})


@contextmanager
def write_errors_explained(folder: RunFolder) -> Iterator[None]:
    """Turns an OSError while writing into a RunFolderError that says how to continue."""
    try:
        yield
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, "free space there, or make it writable")
        before = read(folder)
        then = f"{quoting.typed('resume', folder.path)} then continues from the newest checkpoint"
        if before.get(UNTRAINED, not before):  # not even the status could be written
            then = "then repeat the command"
        raise errors.RunFolderError(
            f"{error.filename or folder.path} could not be written ({error.strerror or error}); "
            f"{remedy}: {then}"
        ) from error
