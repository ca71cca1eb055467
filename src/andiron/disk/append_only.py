"""A file that only grows: appends are whole even after a kill, and wait while the disk is full.

A library's writer queues or buffers what it writes, and a full disk ends the program.
"""

import collections
import errno
import io
import logging
import os
import stat
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

from andiron.disk import guarded_folders

# absent on Windows; opening a pipe without a reader would block
FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
log = logging.getLogger("andiron")


def opener(path: str | Path, flags: int) -> int:
    """A descriptor of a regular file that has no other name, to append to.

    Raises: OSError for a link, a folder, a pipe, a device or a hard link.
    """
    descriptor = os.open(path, flags | FLAGS, 0o666)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        why = "it has another name, a hard link" if status.st_nlink > 1 else "it is not a file"
        raise OSError(errno.EMLINK, why, str(path))
    return descriptor


def cut(path: Path, size: int) -> None:
    """Truncates a file; raises as `opener`."""
    descriptor = opener(path, os.O_WRONLY)
    try:
        os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)


def list_open_files() -> None:
    """Lists the files that this process opened before it guarded their folder.

    Raises: FileExistsError for one that this process has not made.
    """
    for file in _in_use:
        if not file.is_closed:
            guarded_folders.list_file(file.path, is_own=file.is_made)


def made_in(folder: Path) -> set[str]:
    """The names below the folder of files that this process made there, and has open."""
    above = Path(os.path.abspath(folder))
    made = (file.path for file in _in_use if file.is_made and not file.is_closed)
    paths = [path for path in map(Path, map(os.path.abspath, made)) if above in path.parents]
    return {path.relative_to(above).as_posix() for path in paths}


class AppendOnlyFile:
    """Appends to the file at `path` without a buffer: data has left the process on return.

    No disk error reaches the caller of `append`. While the file cannot be written, appends are kept
    in memory, and retried in order with every later append. A removed file is
    created again. `header` begins every new file. `claim` is called with each
    newly opened file and may refuse it with an OSError.
    Raises: OSError if the file cannot be opened, if `required`; otherwise it is opened as soon as
    possible.
    """

    def __init__(
        self,
        path: Path,
        *,
        header: bytes = b"",
        claim: Callable[[io.FileIO], None] | None = None,
        required: bool = True,
    ):
        self.path = path
        self.is_closed = self.is_made = False  # made: no such file was there
        self._name = os.fspath(path)  # looked up at every append; 0.2 us faster than the Path
        self._header = header
        self._claim = claim
        self._lock = threading.RLock()
        self._kept: collections.deque[bytes] = collections.deque()
        self._unsaid: list[tuple[int, str]] = []  # messages to log without the lock
        self._torn = 0  # bytes of a partial append that could not be cut off
        self._lost = 0
        self._is_failing = self._is_writing = self._is_new = False
        self._file: io.FileIO | None = None
        if required:
            self._open()
        _in_use.add(self)
        self.append(b"")

    @property
    def pending(self) -> int:
        """Bytes that were appended and are not in the file yet."""
        return sum(map(len, self._kept))

    @property
    def size(self) -> int:
        """Bytes in the file that belong to whole appends."""
        with self._lock:
            return 0 if self._file is None else os.fstat(self._file.fileno()).st_size - self._torn

    @property
    def end(self) -> int:
        """The size of the file including pending appends."""
        with self._lock:
            return (self.size or len(self._header)) + self.pending

    def append(self, data: bytes) -> None:
        """Writes `data` whole, after all earlier appends, now or as soon as possible.

        Raises: ValueError if the file was closed.
        """
        if self.is_closed:
            raise ValueError(f"{self.path} was closed: nothing can be appended to it")
        with self._lock:
            if data:
                self._kept.append(data)
            self._write_kept()
            # a signal handler may have appended since the last check
            while self._kept and not (self._is_failing or self._is_writing):
                self._write_kept()
        self._log_messages()

    def truncate(self, size: int) -> None:
        """Cuts the file back to an earlier size; logs a warning if bytes before it are missing.

        Raises: OSError if it cannot be cut.
        """
        with self._lock:
            missing = size - self.end
            if self._file is not None and size < self.size:
                os.ftruncate(self._file.fileno(), size)
                self._torn = 0
                self._is_new = size == 0
                self._kept.clear()  # it belongs after the new end of the file
        if missing > 0:
            log.warning("%s: %d logged bytes are missing", self.path, missing)

    def close(self) -> str | None:
        """Retries pending appends; warns of lost data, and returns the warning."""
        with self._lock:
            if self.is_closed:
                return None
            if self._kept:  # do not recreate a removed folder without data
                self._write_kept()
            if self._kept:
                self._lost += self.pending
                self._warn(f" still cannot be written: {self.pending} bytes of it are lost")
            self.is_closed = True
            try:
                if self._file is not None:
                    self._file.close()
            except OSError as error:  # a network's file system may report a failed write only now
                self._lost += 1
                self._warn(f": the last values may be lost ({error.strerror})")
        self._log_messages()
        return f"{self.path}: {self._lost} bytes of it" if self._lost else None

    def _write_kept(self) -> None:
        """Writes all pending appends."""
        if self._is_writing:  # a signal handler logs during an append: that append writes this too
            return
        self._is_writing = True
        try:
            file = self._file_at_path()
            if self._is_new:
                self._write(file, self._header)
                self._is_new = False
            while self._kept:
                self._write(file, self._kept[0])
                self._kept.popleft()
            if self._is_failing:
                self._unsaid.append((logging.INFO, f"{self.path} is written again"))
                self._is_failing = False
        except OSError as error:
            self._note_failure(error)
        finally:
            self._is_writing = False

    def _file_at_path(self) -> io.FileIO:
        """The open file, or a new one if the file at the path was removed."""
        if self._file is not None:
            try:
                if os.path.samestat(os.stat(self._name), self._opened):
                    return self._file
            except (FileNotFoundError, NotADirectoryError):
                pass
            gone, self._file = self._file, None
            gone.close()
            self._warn(" was removed, with all that was in it; what comes goes to a new file")
        guarded_folders.check_writing(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self._open()

    def _open(self) -> io.FileIO:
        guarded_folders.list_file(self.path)
        self.is_made = self.is_made or not os.path.lexists(self.path)
        file = io.FileIO(self.path, "ab", opener=opener)
        try:
            if self._claim is not None:
                self._claim(file)
            self._opened = os.fstat(file.fileno())
        except BaseException:
            file.close()
            raise
        self._file = file
        self._torn = 0
        self._is_new = self._opened.st_size == 0
        return file

    def _write(self, file: io.FileIO, data: bytes) -> None:
        """All of `data`, or none of it and an OSError."""
        self._cut_torn(file)
        written = file.write(data)
        try:
            while written < len(data):  # a full disk, or more than the system takes at once
                written += file.write(memoryview(data)[written:])
        except BaseException:
            self._torn = written
            self._cut_torn(file)
            raise

    def _cut_torn(self, file: io.FileIO) -> None:
        if self._torn:
            # from the current size: a forked process may have appended too
            os.ftruncate(file.fileno(), os.fstat(file.fileno()).st_size - self._torn)
            self._torn = 0

    def _note_failure(self, error: OSError) -> None:
        if not self._is_failing:
            self._warn(
                f" cannot be written ({error.strerror or error}); training continues; logged "
                "values stay in memory and writing is retried"
            )
        self._is_failing = True

    def _warn(self, problem: str) -> None:
        self._unsaid.append((logging.WARNING, f"{self.path}{problem}"))

    def _log_messages(self) -> None:
        """Logs the messages, without the lock: the log may be written through this very class."""
        if self._unsaid:
            with self._lock:
                said, self._unsaid = self._unsaid, []
            for level, message in said:
                log.log(level, message)

    def _forget_parent(self) -> None:
        """After a fork: the parent writes pending appends, and no thread holds the lock."""
        self._lock = threading.RLock()
        self._kept.clear()
        self._unsaid.clear()
        self._torn = 0
        self._is_writing = False
        self._claim = None


def _after_fork() -> None:
    for file in list(_in_use):
        file._forget_parent()


_in_use: weakref.WeakSet[AppendOnlyFile] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):  # absent on Windows
    os.register_at_fork(after_in_child=_after_fork)
