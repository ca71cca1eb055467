"""Scratch folders: removed after the body, and by the next one if their process was killed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

try:
    import fcntl
except ImportError:  # a system without locks: what a killed process left stays
    fcntl = None  # type: ignore[assignment]

PREFIX = "andiron-ask-"
MARK = ".andiron-scratch"  # has the identity of its folder, which a copy has not


@contextmanager
def folder() -> Iterator[str]:
    """A new folder, locked while the body runs."""
    for path in Path(gettempdir()).glob(f"{PREFIX}*/{MARK}"):
        with suppress(OSError):
            _remove_left(path.parent)
    with TemporaryDirectory(prefix=PREFIX) as made:
        descriptor = None if fcntl is None else os.open(made, os.O_RDONLY)
        try:
            if descriptor is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                Path(made, MARK).write_text(_identity(descriptor))
            yield made
        finally:
            if descriptor is not None:
                os.close(descriptor)


def _remove_left(path: Path) -> None:
    """Removes the folder of a process of this user that was killed.

    Raises: OSError for one that is in use, or of another user.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_own = os.fstat(descriptor).st_uid == os.getuid()
        if is_own and (path / MARK).read_text() == _identity(descriptor):
            shutil.rmtree(path)
    finally:
        os.close(descriptor)


def _identity(descriptor: int) -> str:
    status = os.fstat(descriptor)
    return f"{status.st_dev} {status.st_ino}\n"
