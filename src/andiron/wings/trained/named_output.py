"""Output files and folders that a user names for a command: the only place that opens them.

A regular file is replaced once the new one is whole, or not at all. Pipes and character
devices are written to, also through a link such as /dev/stdout. Everything else is refused, and so
are inputs of the command, files in the folder of a run, and files that a sweep may have written.
"""

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from andiron import errors, run_folder
from andiron.disk import files
from andiron.shell.run import run_record

STDIN = "-"  # among the inputs
LINKS = ("/dev/", "/proc/self/fd/")  # to open descriptors: /dev/stdout, /dev/fd/3
UNWRITABLE = "cannot be written (no permission, or read-only)"
Inputs = Iterable[str | Path]


def check(path: Path, inputs: Inputs = ()) -> None:
    """Checks, before any work, that `write` may write there; changes nothing.

    Raises: OutputError.
    """
    try:
        problem = _problem(path, inputs)
    except OSError as error:
        problem = f"cannot be written ({error.strerror})"
    if problem:
        raise errors.OutputError(f"{path}: {problem}; name another file")


def write(path: Path, pieces: files.Pieces, inputs: Inputs = ()) -> None:
    """Writes the pieces one by one, each as soon as it is made.

    Raises: OutputError as `check`, before the first piece is made, or if writing fails.
    """
    check(path, inputs)
    try:
        if _is_stream(path):
            with path.open("wb") as stream:
                stream.writelines(pieces)
        else:
            files.write_pieces(path, pieces)
    except OSError as error:
        raise errors.OutputError(
            f"{path}: cannot be written ({error.strerror}); name another file"
        ) from error


def check_folder(path: Path) -> None:
    """Checks that files can be written to a folder, which need not exist yet; changes nothing.

    Raises: OutputError, also inside a run folder.
    """
    real = Path(os.path.realpath(path))
    nearest = next(parent for parent in (real, *real.parents) if os.path.lexists(parent))
    if not nearest.is_dir():
        problem = "is not a folder" if nearest == real else f"{nearest} is not a folder"
    elif run := run_record.enclosing_run(real):
        problem = f"is inside the run folder {run}"
    elif not os.access(nearest, os.W_OK | os.X_OK):
        problem = UNWRITABLE
    else:
        return
    raise errors.OutputError(f"{path}: {problem}; name another folder")


def _problem(path: Path, inputs: Inputs) -> str | None:
    """Why `path` may not be written; None if it may."""
    folder, can_write = Path(os.path.realpath(path.parent)), True
    if _is_stream(path):
        return None
    if not folder.is_dir():
        return f"cannot be written (there is no folder {path.parent})"
    if os.path.lexists(path):
        if path.is_symlink():
            return f"is a link to {os.readlink(path)}"
        if not path.is_file():
            return "is a folder" if path.is_dir() else "is no file, pipe or character device"
        if any(_is_same(path, name) for name in inputs):
            return "is an input of this command"
        if run_folder.is_sweep(folder):
            return "is in the folder of a sweep, whose files are not replaced"
        can_write = os.access(path, os.W_OK)
    if run := run_record.enclosing_run(folder):
        return f"is inside the run folder {run}"
    return None if can_write and os.access(folder, os.W_OK | os.X_OK) else UNWRITABLE


def _is_stream(path: Path) -> bool:
    """Whether a path is a pipe or a character device, or one of LINKS that leads to one."""
    is_followed = not path.is_symlink() or os.path.abspath(path).startswith(LINKS)
    mode = path.stat().st_mode if is_followed and path.exists() else 0
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _is_same(path: Path, name: str | Path) -> bool:
    """Whether an input is the file at `path`; an input may also be a text."""
    with suppress(OSError, ValueError):
        return os.path.samestat(path.stat(), os.fstat(0) if name == STDIN else os.stat(name))
    return False
