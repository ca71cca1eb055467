"""Output files and folders that a user names for a command: the only place that opens them.

A regular file is replaced once the new one is whole, or not at all. Pipes, character devices and
the streams of this process are written to. Everything else is refused, and so are inputs of the
command, files in the folder of a run, and files that a sweep may have written.
"""

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from andiron import errors, run_folder
from andiron.disk import files
from andiron.shell.run import run_record

STDIN = "-"  # among the inputs
STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}  # links, as the paths of DESCRIPTOR
DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/([0-9]{1,9})")
REFUSED = {stat.S_IFDIR: "a folder", stat.S_IFBLK: "a block device", stat.S_IFSOCK: "a socket"}
STREAM_FLAGS = os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)  # Windows has none
MOST_IN_NAME = 255  # bytes; file systems take no more
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
    descriptor = _descriptor(path)
    try:
        if descriptor is None and (path.is_file() or not path.exists()):
            files.write_pieces(path, pieces)
            return
        opened = os.open(path, STREAM_FLAGS) if descriptor is None else os.dup(descriptor)
        with open(opened, "wb") as stream:
            stream.writelines(pieces)
    except OSError as error:
        raise errors.OutputError(
            f"{path}: cannot be written ({error.strerror}); name another file"
        ) from error


def check_folder(path: Path, *, is_inside_allowed: bool = False, hint: str = "") -> None:
    """Checks that files can be written to a folder, which need not exist yet; changes nothing.

    Raises: OutputError, and inside a run folder, unless that is allowed, with the `hint`.
    """
    real = Path(os.path.realpath(path))
    nearest = next(parent for parent in (real, *real.parents) if os.path.lexists(parent))
    run = None if is_inside_allowed else run_record.enclosing_run(real)
    if not nearest.is_dir():
        problem = "is not a folder" if nearest == real else f"{nearest} is not a folder"
    elif run is not None:
        problem = f"is inside the run folder {run}"
    elif not _is_writable(nearest):
        problem = UNWRITABLE
    elif len(os.fsencode(max(real.parts, key=len))) > MOST_IN_NAME:
        problem = f"has a name of more than {MOST_IN_NAME} bytes"
    else:
        return
    raise errors.OutputError(f"{path}: {problem}; name another folder{hint if run else ''}")


def _problem(path: Path, inputs: Inputs) -> str | None:
    """Why `path` may not be written; None if it may."""
    descriptor, folder = _descriptor(path), Path(os.path.realpath(path.parent))
    status = None
    if descriptor is not None:
        status = os.fstat(descriptor)
    elif os.path.lexists(path):
        status = path.lstat()
    kind = stat.S_IFREG if status is None else stat.S_IFMT(status.st_mode)
    if status is not None and kind == stat.S_IFREG and _is_input(status, inputs):
        return "is an input of this command"
    if descriptor is not None:
        return None
    if kind == stat.S_IFLNK:
        return f"is a link to {os.readlink(path)}"
    if kind in REFUSED:
        return f"is {REFUSED[kind]}"
    if not folder.is_dir():
        return f"cannot be written (there is no folder {path.parent})"
    if run := run_record.enclosing_run(folder):
        return f"is inside the run folder {run}"
    if status is not None and run_folder.is_sweep(folder):
        return "is in the folder of a sweep, whose files are not replaced"
    is_replaced = kind == stat.S_IFREG
    can_write = status is None or os.access(path, os.W_OK)
    return None if can_write and (not is_replaced or _is_writable(folder)) else UNWRITABLE


def _is_writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)


def _descriptor(path: Path) -> int | None:
    """The open descriptor that a path such as /dev/stdout or /dev/fd/3 names."""
    name = os.path.abspath(path)
    match = DESCRIPTOR.fullmatch(name)
    return int(match[1]) if match else STREAMS.get(name)


def _is_input(status: os.stat_result, inputs: Inputs) -> bool:
    for name in inputs:
        with suppress(OSError, ValueError):  # not the name of a file
            if os.path.samestat(status, os.fstat(0) if name == STDIN else os.stat(name)):
                return True
    return False
