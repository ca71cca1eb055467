"""The log file of a run, locked by the one process that trains it."""

import io
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from andiron import errors
from andiron.disk import append_only
from andiron.plain import readable

try:
    import fcntl
except ImportError:  # a system without POSIX record locks
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger("andiron")


class LogFile(logging.Handler):
    """Appends every log line to the file at `path`; lines that cannot be written wait in memory.

    The file stays locked until `close` or the end of the process, so that only one process trains
    the run. The lock is a POSIX record lock: forked workers do not inherit it, and a killed process
    loses it. Closing any other descriptor of the file would release it: nothing else here may open
    the file.
    Raises: RunFolderError if another process has the lock, or the file cannot be written.
    """

    def __init__(self, path: Path):
        try:
            self._file = append_only.AppendOnlyFile(path, claim=lock)
        except BlockingIOError as error:
            raise errors.RunFolderError(
                f"another process trains the run in this folder: it has {path} locked; end it "
                "first, or choose another hydra.run.dir"
            ) from error
        except OSError as error:
            raise unwritable(path, error) from error
        super().__init__()  # only now: logging closes every handler at exit
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Appends the record, a line for each line of its message."""
        if self._file.is_closed:  # a message about closing this very file
            return
        try:
            line = readable.printable(self.format(record))
        except (TypeError, ValueError, KeyError):  # arguments that do not fit their message
            self.handleError(record)
            return
        self._file.append(f"{line}\n".encode(errors="backslashreplace"))

    def close(self) -> None:
        """Closes the file, which unlocks it."""
        self._file.close()
        super().close()


def unwritable(path: Path, error: OSError) -> errors.RunFolderError:
    """The error for a path in a run's folder that cannot be written before the run begins."""
    return errors.RunFolderError(
        f"{path} cannot be written ({error.strerror}); choose another place with hydra.run.dir=..."
    )


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Makes the folder and keeps others from claiming it, until the lock of its log takes over.

    The folder above is locked, since the folder itself may be renamed meanwhile.
    Raises: RunFolderError if it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    with ExitStack() as at_end:
        if fcntl is not None:
            with suppress(OSError):  # an unreadable folder, or a file system without locks
                descriptor = os.open(os.path.dirname(os.path.realpath(folder)), os.O_RDONLY)
                at_end.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps other processes from training the run of the log at `path`.

    Never call it for a log that this process has open: that would release its own lock.
    Raises: BlockingIOError if another process has the lock; OSError if it cannot be written.
    """
    with path.open("rb+", buffering=0) as file:
        lock(file)
        yield


def is_held(path: Path) -> bool:
    """Whether another process has the log at `path` locked, and so trains the run.

    As with `locked`, never call it for a log that this process has open.
    """
    try:
        with locked(path):
            pass
    except BlockingIOError:
        return True
    except OSError:  # there is no log, or it cannot be written
        return False
    return False


def lock(file: io.FileIO) -> None:
    """Locks the file.

    Raises: BlockingIOError if another process has the lock.
    """
    if fcntl is None:
        return
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError) as error:  # POSIX allows either
        raise BlockingIOError(error.errno, "locked by another process") from error
    except OSError as error:
        log.warning(
            "%s cannot be locked (%s): a second process could train this run too",
            file.name,
            error.strerror,
        )
