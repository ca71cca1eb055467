"""The manifest of a checkpoint: the size and checksum of its files, and their verification."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.checkpoint import contents
from andiron.disk import checksums, files
from andiron.serialization.safetensors_codec import FROZEN, frozen_unusable

# Hashed and written while in the processor's cache; the interpreter lock is free meanwhile.
PIECE_BYTES = 4 * 2**20
MOST_MANIFEST_BYTES = 2**20  # thousands of averages; a longer file is something else
MOST_STATE_BYTES = 64 * 2**20  # thousands of batches since the last log point
KEYS = {"name", "updates", "files", "sha256"}
_REQUIRED = {contents.MODEL, contents.OPTIMIZER, contents.STATE}


class Digested:
    """Passes on the pieces of a file; then `entry` is the file's entry in the manifest."""

    def __init__(self, pieces: files.Pieces):
        self.entry: checksums.Entry = {}
        self._pieces = pieces

    def __iter__(self) -> Iterator[memoryview]:
        sha256, size = hashlib.sha256(), 0
        for piece in self._pieces:
            view = memoryview(piece)
            for start in range(0, len(view), PIECE_BYTES):
                part = view[start : start + PIECE_BYTES]
                sha256.update(part)
                size += len(part)
                yield part
        self.entry = {"bytes": size, "sha256": sha256.hexdigest()}


@dataclass(frozen=True)
class Manifest:
    """A checkpoint's name and updates, and the size and SHA-256 of each of its other files."""

    name: str
    updates: int
    entries: dict[str, checksums.Entry]
    run: str | None = None  # the identity of its run; None without a run

    def as_json(self) -> bytes:
        """The content of the file, with its own SHA-256."""
        plain = {"name": self.name, "updates": self.updates, "files": self.entries}
        plain |= {} if self.run is None else {"run": self.run}
        return files.as_json(checksums.signed(plain))


def read(folder: Path) -> Manifest:
    """The manifest in a checkpoint's folder.

    Raises: DataError if it is missing, damaged, or belongs to another folder.
    """
    path = folder / contents.MANIFEST
    plain = read_json(path, MOST_MANIFEST_BYTES)
    problem = _problem(plain)
    if problem:
        raise _unusable(path, f"damaged ({problem})")
    if contents.step_place(folder.name) and folder.name != plain["name"]:
        raise errors.DataError(
            f"{path}: belongs to {plain['name']}: the folder was renamed; restore its name"
        )
    return Manifest(plain["name"], plain["updates"], plain["files"], plain.get("run"))


def verified(folder: Path, *, past_cache: bool = False) -> Manifest:
    """The manifest, once size and SHA-256 of every listed file are verified.

    With `past_cache` the files are read from the disk, not the page cache, if the system allows it.
    Raises: DataError naming the file that is missing or damaged.
    """
    manifest = read(folder)
    for name, entry in manifest.entries.items():  # sizes first: cheap, and show most damage
        size = _size(folder / name)
        if size != entry["bytes"]:
            raise _unusable(folder / name, f"has {size} bytes, not {entry['bytes']}: damaged")
    for name, entry in manifest.entries.items():
        digest = _digest(folder / name, past_cache=past_cache)
        if digest != entry["sha256"]:
            raise _unusable(folder / name, f"SHA-256 is {digest}, not {entry['sha256']}: damaged")
    return manifest


def read_json(path: Path, most_bytes: int = MOST_STATE_BYTES) -> Any:
    """The plain value in an untrusted JSON file.

    Raises: DataError if it cannot be read or is not JSON.
    """
    with _readable(path):
        return files.read_json(path, most_bytes)


def _problem(plain: object) -> str | None:
    """The first problem of a manifest that this module cannot have written."""
    if not isinstance(plain, dict) or plain.keys() - {"run"} != KEYS:
        return "not a checkpoint's manifest"
    if not isinstance(plain.get("run"), str | None):
        return "run has another type"
    if [type(plain[key]) for key in ("name", "updates", "files")] != [str, int, dict]:
        return "name, updates or files have another type"
    for name, entry in plain["files"].items():
        if not contents.is_own(name) or name == contents.MANIFEST:
            return f"lists {name!r}, not a file of a checkpoint"
        if not checksums.is_entry(entry):
            return f"bytes and sha256 of {name} are missing"
    missing = sorted(_REQUIRED.difference(map(contents.undivided, plain["files"])))
    if missing:
        return f"does not list {missing[0]}"
    return None if plain["sha256"] == checksums.own(plain) else "its own SHA-256 differs"


def _size(path: Path) -> int:
    with _readable(path), files.opened(path) as file:
        return os.fstat(file.fileno()).st_size


def _digest(path: Path, *, past_cache: bool) -> str:
    with _readable(path), files.opened(path) as file:
        if past_cache and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turns a failure of the body to read into a DataError."""
    try:
        yield
    except FileNotFoundError as error:
        raise _unusable(path, "missing") from error
    except ValueError as error:
        raise _unusable(path, f"damaged ({error})") from error
    except OSError as error:
        raise _unusable(path, f"cannot be read ({error.strerror})") from error


def _unusable(path: Path, problem: str) -> errors.DataError:
    if path.name == FROZEN:
        return frozen_unusable(path, problem)
    return errors.DataError(f"{path}: {problem}; use another checkpoint")
