"""A file that only grows: what is appended is there whole, after a kill too, and waits in memory while the disk is full."""

import collections
import io
import logging
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

KEPT_BYTES = (
    64 * 2**20
)  # what may wait in memory: hours of logging, and little beside the state of a run
log = logging.getLogger("andiron")
Messages = list[tuple[int, str]]


class AppendOnlyFile:
    """Appends to the file at `path`, unbuffered: what is written has left the process when `append` returns.

    No error of the disk reaches the caller of `append`. While the file cannot be written, what is appended is kept in memory,
    up to `KEPT_BYTES`, and tried again with every later append, in order. A file that was removed is made again.
    `header` begins every new file. `claim` is called with each newly opened file, and may refuse it with an OSError.
    Raises: OSError if the file cannot be opened now, unless `required` is false: it is then opened as soon as it can be.
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
        self.is_closed = False
        self._name = os.fspath(path)  # every append asks after it; from a Path it takes 0.2 us more
        self._header = header
        self._claim = claim
        self._lock = threading.RLock()
        self._kept: collections.deque[bytes] = collections.deque()
        self._pending = 0
        self._torn = 0  # bytes of half an append that could not be cut off
        self._dropped = 0
        self._is_failing = False
        self._is_writing = False
        self._is_new = False
        self._file: io.FileIO | None = None
        if required:
            self._open()
        _in_use.add(self)
        self.append(b"")

    @property
    def size(self) -> int:
        """Bytes in the file that belong to whole appends."""
        with self._lock:
            return 0 if self._file is None else os.fstat(self._file.fileno()).st_size - self._torn

    @property
    def pending(self) -> int:
        """Bytes in memory, to be written as soon as they can be."""
        return self._pending

    @property
    def end(self) -> int:
        """Where the file ends once everything that was appended is in it."""
        with self._lock:
            size = self.size
            return (size or len(self._header)) + self._pending

    def append(self, data: bytes) -> None:
        """Writes `data` behind all that was appended before, whole, now or as soon as it can be.

        Raises: ValueError if the file was closed.
        """
        if self.is_closed:
            raise ValueError(f"{self.path} was closed: nothing can be appended to it")
        with self._lock:
            if length := len(data):
                self._kept.append(data)
                self._pending += length
            said = self._write_kept()
            while self._kept and not (
                self._is_failing or self._is_writing
            ):  # a signal's handler came after the last look
                said += self._write_kept()
        if said:
            _say(said)

    def truncate(self, size: int) -> None:
        """Cuts the file back to an earlier size; bytes that are not there to be kept are warned of.

        Raises: OSError if it cannot be cut.
        """
        with self._lock:
            missing = size - self.end
            if self._file is not None and size < self.size:
                os.ftruncate(self._file.fileno(), size)
                self._torn = 0
                self._is_new = size == 0
                self._kept.clear()  # it would have come behind the end of the file
                self._pending = 0
        if missing > 0:
            log.warning("%s: %d bytes that were logged are missing", self.path, missing)

    def close(self) -> None:
        """Tries once more to write what is kept, and warns of what is lost."""
        with self._lock:
            if self.is_closed:
                return
            said = (
                self._write_kept() if self._kept else []
            )  # a folder that was removed is not made again for nothing
            if self._pending:
                said.append(
                    (
                        logging.WARNING,
                        f"{self.path} still cannot be written: {self._pending} bytes of it are lost",
                    )
                )
            self.is_closed = True
            try:
                if self._file is not None:
                    self._file.close()
            except (
                OSError
            ) as error:  # a network's file system may only now say that it could not write
                said.append(
                    (
                        logging.WARNING,
                        f"{self.path}: what was written last may be lost ({error.strerror})",
                    )
                )
        _say(said)  # not under the lock: the log may be written through this very class

    def _write_kept(self) -> Messages:
        """What is to be said of writing all that waits."""
        if (
            self._is_writing
        ):  # a signal's handler logs in the midst of an append: that append writes this too
            return []
        self._is_writing = True
        said: Messages = []
        try:
            file = self._found(said)
            if self._is_new:
                self._write(file, self._header)
                self._is_new = False
            while self._kept:
                self._write(file, self._kept[0])
                length = len(self._kept.popleft())
                self._pending -= length
            if self._is_failing:
                self._recovered(said)
        except OSError as error:
            self._failed(error, said)
        finally:
            self._is_writing = False
        return said

    def _found(self, said: Messages) -> io.FileIO:
        """The open file, which is the one at the path, or a new one if that was removed."""
        if self._file is not None:
            try:
                at_path = os.stat(self._name)
                if at_path.st_ino == self._inode and at_path.st_dev == self._device:
                    return self._file
            except (FileNotFoundError, NotADirectoryError):
                pass
            gone, self._file = self._file, None
            gone.close()
            said.append(
                (
                    logging.WARNING,
                    f"{self.path} was removed, with all that was in it; what comes goes to a new file",
                )
            )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self._open()

    def _open(self) -> io.FileIO:
        file = io.FileIO(self.path, "ab")
        try:
            if self._claim is not None:
                self._claim(file)
            found = os.fstat(file.fileno())
        except BaseException:
            file.close()
            raise
        self._file = file
        self._device, self._inode = found.st_dev, found.st_ino
        self._torn = 0
        self._is_new = found.st_size == 0
        return file

    def _write(self, file: io.FileIO, data: bytes) -> None:
        """All of `data`, or none of it and an OSError."""
        if self._torn:
            self._cut_torn()
        written = file.write(data)
        if written == len(data):
            return
        try:
            while written < len(
                data
            ):  # the disk is full now, or it was more than the system takes at once
                written += file.write(memoryview(data)[written:])
        except BaseException:
            self._torn = written
            self._cut_torn()
            raise

    def _cut_torn(self) -> None:
        if self._file is not None:
            # by the size that the file has now: a forked process may have logged to it too
            os.ftruncate(self._file.fileno(), os.fstat(self._file.fileno()).st_size - self._torn)
            self._torn = 0

    def _failed(self, error: OSError, said: Messages) -> None:
        if not self._is_failing:
            said.append((
                logging.WARNING,
                f"{self.path} cannot be written ({error.strerror or error}); training goes on; what is logged is kept in memory "
                "and written as soon as it can be",
            ))  # fmt: skip
        self._is_failing = True
        while self._pending > KEPT_BYTES:
            if not self._dropped:
                said.append(
                    (
                        logging.WARNING,
                        f"{self.path}: more than {KEPT_BYTES} bytes wait; the oldest are dropped",
                    )
                )
            oldest = len(self._kept.popleft())
            self._pending -= oldest
            self._dropped += oldest

    def _recovered(self, said: Messages) -> None:
        said.append((logging.INFO, f"{self.path} is written again"))
        if self._dropped:
            said.append(
                (
                    logging.WARNING,
                    f"{self.path}: {self._dropped} bytes were dropped while it could not be written",
                )
            )
        self._is_failing = False
        self._dropped = 0

    def _forget_parent(self) -> None:
        """After a fork: what waits is the parent's to write, and a lock that another thread held is held by nobody."""
        self._lock = threading.RLock()
        self._kept.clear()
        self._pending = 0
        self._torn = 0
        self._is_writing = False
        self._claim = None


def _say(messages: Messages) -> None:
    for level, message in messages:
        log.log(level, "%s", message)


def _after_fork() -> None:
    for file in list(_in_use):
        file._forget_parent()


_in_use: weakref.WeakSet[AppendOnlyFile] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):  # where there is no fork there is none
    os.register_at_fork(after_in_child=_after_fork)
