"""A run's log in a file that this process alone may write, whatever becomes of the disk."""

import errno
import io
import logging
from pathlib import Path

from andiron import append_only, errors

try:
    import fcntl
except ImportError:  # a system without POSIX record locks
    fcntl = None  # type: ignore[assignment]

HELD = (errno.EACCES, errno.EAGAIN)  # POSIX allows either
log = logging.getLogger("andiron")


class LogFile(logging.Handler):
    """Appends every line to the file at `path`; lines that cannot be written wait in memory.

    The file is locked, so that one process at a time is at the run, until `close` or the end of the process. It is a POSIX
    record lock: forked workers do not inherit it, and it ends with a killed process. It also ends as soon as this process
    closes any other descriptor of the file: nothing else here may open it.
    Raises: RunFolderError if another process has the lock, or the file cannot be written.
    """

    def __init__(self, path: Path):
        try:
            self._file = append_only.AppendOnlyFile(path, claim=_lock)
        except BlockingIOError as error:
            raise errors.RunFolderError(
                f"another process is at the run in this folder: it has {path} locked; end it first, or choose another "
                "hydra.run.dir"
            ) from error
        except OSError as error:
            raise errors.RunFolderError(
                f"{path} cannot be written ({error.strerror}); choose another place with hydra.run.dir=..."
            ) from error
        super().__init__()  # when there is a file: from here on logging closes it at exit
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Appends the record as one line, or as many as its message has."""
        if self._file.is_closed:  # what its own closing has to say
            return
        try:
            line = self.format(record)
        except (TypeError, ValueError, KeyError):  # arguments that do not fit their message
            self.handleError(record)
            return
        self._file.append(f"{line}\n".encode(errors="backslashreplace"))

    def close(self) -> None:
        """Closes the file, which unlocks it."""
        self._file.close()
        super().close()


def is_held(path: Path) -> bool:
    """Whether another process has the log at `path` locked, and so is at the run; not to be asked of one's own."""
    try:
        with path.open("rb+", buffering=0) as file:
            _lock(file)
    except BlockingIOError:
        return True
    except OSError:  # there is none, or none that could be written
        return False
    return False


def _lock(file: io.FileIO) -> None:
    """Takes the lock; BlockingIOError if another process has it."""
    if fcntl is None:
        return
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in HELD:
            raise BlockingIOError(error.errno, "another process has it locked") from error
        log.warning(
            "%s cannot be locked (%s): nothing keeps a second process from this run",
            file.name,
            error.strerror,
        )
