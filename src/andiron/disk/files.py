"""Files and folders that are written whole or not at all, and plain values as JSON."""

import errno
import io
import json
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from andiron.disk.guarded_folders import check_writing

# temporary names of entries being written or removed; the group is the final name
PARTIAL = re.compile(r"\.(.+)\.[0-9a-f]{8}\.partial")
CHUNK_BYTES = 2**20  # read at a time
Pieces = Iterable[bytes | memoryview]
TEXT_LIMIT = 16 * 2**20  # bytes: a record of a run is far smaller
VALUES_LIMIT = 2 * 2**20  # in a JSON file; each takes up to 100 bytes of memory
STAND_INS = {
    b"version https://git-lfs": "a pointer of Git LFS, not the file: run git lfs pull beside it",
    b"<!doctype": "a web page, not the file: download the file itself",
    b"<html": "a web page, not the file: download the file itself",
}  # by how it begins
NO_WAITING = getattr(os, "O_NONBLOCK", 0)  # on a pipe; Windows has none


@runtime_checkable
class Linking(Protocol):
    """The pieces of a file that may be on the disk already."""

    def link(self, path: Path) -> bool:
        """Links such a file as `path`, in a folder not yet renamed; returns False if none is."""


def is_ambiguous(path: str | Path) -> bool:
    """Whether `..` follows a link in the path: its meaning is then ambiguous."""
    return os.path.realpath(path) != os.path.realpath(os.path.abspath(path))


def read_bytes(path: Path, limit: int = TEXT_LIMIT) -> bytes:
    """The content of a regular file of at most `limit` bytes.

    Raises: OSError; ValueError for a pipe, a device, or a larger file.
    """
    with opened(path) as file:
        check_size(file, limit)
        return file.read(limit)


def chunks(*paths: Path) -> Iterator[bytes]:
    """The contents of files, one after the other; raises OSError."""
    for path in paths:
        with path.open("rb") as file:
            yield from iter(lambda: file.read(CHUNK_BYTES), b"")


def check_size(file: io.BufferedReader, limit: int) -> None:
    """Raises: ValueError for a file of more than `limit` bytes."""
    size = os.fstat(file.fileno()).st_size
    if size > limit:
        raise ValueError(f"has {size:,} bytes, more than the {limit:,} allowed")


def reason(error: OSError | ValueError) -> str:
    """Why a file could not be read or written, without its name."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def opened(path: Path) -> io.BufferedReader:
    """A regular file, open for reading.

    Raises: OSError, IsADirectoryError for a folder; ValueError for a pipe or a device.
    """
    descriptor = os.open(path, os.O_RDONLY | NO_WAITING)  # opening a pipe would block
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise ValueError("not a file")
    return open(descriptor, "rb")


def check_itself(path: Path) -> None:
    """Raises: ValueError for a small text in the place of a file; else as `opened`."""
    with opened(path) as file:
        if what := stand_in(file.read(64)):
            raise ValueError(what)


def stand_in(start: bytes) -> str:
    """The small text that is in the place of a file, by how it begins; "" for the file itself."""
    begins = start.lstrip().lower().startswith
    return next((what for sign, what in STAND_INS.items() if begins(sign)), "")


def read_text(path: Path, limit: int = TEXT_LIMIT) -> str:
    """The content of a text file in UTF-8; raises as `read_bytes`."""
    return read_bytes(path, limit).decode()


def write(path: Path, content: bytes) -> None:
    """Replaces a file atomically and durably: readers see the old content or the new."""
    write_pieces(path, [content])


def write_new(path: Path, content: bytes) -> None:
    """Creates a file atomically and durably; only one of several processes succeeds.

    Raises: FileExistsError if it exists.
    """
    partial = _partial(path)
    try:
        write_through(partial, [content])
        try:
            os.link(partial, path)  # a rename would replace the file of another process
        except OSError:
            if os.path.lexists(path):
                raise
            partial.rename(path)  # a file system without hard links
    finally:
        partial.unlink(missing_ok=True)
    _sync(path.parent)


def write_pieces(path: Path, pieces: Pieces) -> None:
    """`write` piece by piece: the content need not be in memory as a whole."""
    check_writing(path)
    partial = _partial(path)
    try:
        write_through(partial, pieces)
        partial.replace(path)
    except BaseException as error:
        if isinstance(error, OSError):
            error.filename = str(path)  # who reads it looks for this name
        with suppress(OSError):  # report the first error
            partial.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def write_json(path: Path, value: object) -> None:
    """Replaces the file at `path` by a plain value as indented JSON."""
    write(path, as_indented_json(value))


def as_indented_json(value: object) -> bytes:
    """A plain value as indented JSON."""
    return (json.dumps(value, indent=2) + "\n").encode()


def as_json(value: object) -> bytes:
    """A plain value as JSON on one line; Python's encoder takes ten times as long to indent."""
    return (json.dumps(value) + "\n").encode()


def read_json(path: Path, limit: int = TEXT_LIMIT) -> Any:
    """The plain value in a JSON file.

    Raises: OSError; ValueError for another kind of file, one that is too large, or other content.
    """
    return parsed_json(read_bytes(path, limit))


def parsed_json(content: bytes, limit: int = VALUES_LIMIT, **hooks: Any) -> Any:
    """The plain value in JSON of at most `limit` values; `hooks` are passed to `json.loads`.

    Raises: ValueError for more values, or other content.
    """
    number = num_values(content)
    if number > limit:
        raise ValueError(f"has {number:,} values, more than the {limit:,} allowed")
    try:
        return json.loads(content.decode(), **hooks)
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error


def num_values(content: bytes) -> int:
    """The most values that JSON can have."""
    return sum(map(content.count, (b",", b"[", b"{", b":")))


def write_folder(path: Path, contents: Mapping[str, Pieces]) -> None:
    """Writes a folder with these files durably and atomically: it appears when complete.

    The files are written one after the other, piece by piece, so none need be in memory whole.
    Raises: OSError, leaving nothing, if `path` is a non-empty folder or cannot be written.
    """
    check_writing(path)
    partial = _partial(path)
    _make_folder(partial)
    is_named = False
    try:
        for name, pieces in contents.items():
            if not (isinstance(pieces, Linking) and pieces.link(partial / name)):
                write_through(partial / name, pieces)
        _sync(partial)
        partial.rename(path)
        is_named = True
        _sync(path.parent)
    except BaseException:
        with suppress(OSError):  # report the first error
            if is_named:
                path.rename(partial)
            _remove(partial, contents)
        raise


def remove_folder(path: Path, names: Iterable[str]) -> list[str]:
    """Removes these files of a folder, and the folder once empty; returns the names of other files.

    The folder is renamed first: readers find all of it or nothing.
    """
    partial = _partial(path)
    path.rename(partial)
    left = _remove(partial, names)
    if left:
        partial.rename(path)
    _sync(path.parent)
    return left


def is_partial(path: Path) -> bool:
    """Whether the name is that of a half-written or half-removed entry."""
    return PARTIAL.fullmatch(path.name) is not None


def partials(folder: Path) -> dict[Path, str]:
    """Half-written or half-removed entries of killed processes, with their final names."""
    matches = {path: PARTIAL.fullmatch(path.name) for path in sorted(folder.iterdir())}
    return {path: match[1] for path, match in matches.items() if match}


def remove_partial(path: Path, names: Iterable[str]) -> None:
    """Removes one of `partials`: a file, or these files of a folder and the folder once empty."""
    if path.is_dir() and not path.is_symlink():
        _remove(path, names)
    else:
        path.unlink()


def _remove(folder: Path, names: Iterable[str]) -> list[str]:
    for name in names:
        # a folder of that name belongs to others
        with suppress(FileNotFoundError, IsADirectoryError, PermissionError):
            (folder / name).unlink()
    left = sorted(path.name for path in folder.iterdir())
    if not left:
        folder.rmdir()
    return left


def _make_folder(folder: Path) -> None:
    """Creates a folder and its parents durably."""
    above = [parent for parent in folder.parents if not parent.exists()]
    folder.mkdir(parents=True)
    for created in above:
        _sync(created.parent)


def write_through(path: Path, pieces: Pieces) -> None:
    """Writes a new file to the disk, under the name it keeps; raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        for piece in pieces:
            left = memoryview(piece)
            while left:  # one call takes at most 2 GiB
                left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    except OSError as error:
        error.filename = error.filename or str(path)  # a write error lacks it
        raise
    finally:
        os.close(descriptor)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")


def _sync(folder: Path) -> None:
    """Makes the names in a folder durable, not only the contents."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
