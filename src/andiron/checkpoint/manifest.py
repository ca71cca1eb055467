"""The manifest of a checkpoint: what its files should be, and whether they are."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from andiron import errors, files
from andiron.checkpoint import contents, step_names

PIECE_BYTES = (
    4 * 2**20
)  # hashed and written while it is in the processor's cache; the interpreter lock is free meanwhile
MOST_MANIFEST_BYTES = 2**20  # thousands of averages; what is longer is something else
_REQUIRED = (contents.MODEL, contents.OPTIMIZER, contents.STATE)


class Digested:
    """Pieces of a file on their way to it: afterwards `entry` has their size and SHA-256."""

    def __init__(self, pieces: files.Pieces):
        self._pieces = pieces
        self._sha256 = hashlib.sha256()
        self._bytes = 0

    def __iter__(self) -> Iterator[memoryview]:
        for piece in self._pieces:
            view = memoryview(piece)
            for start in range(0, len(view), PIECE_BYTES):
                part = view[start : start + PIECE_BYTES]
                self._sha256.update(part)
                self._bytes += len(part)
                yield part

    @property
    def entry(self) -> dict[str, Any]:
        """What the manifest says of the file."""
        return {"bytes": self._bytes, "sha256": self._sha256.hexdigest()}


@dataclass(frozen=True)
class Manifest:
    """The checkpoint's name and updates, and size and SHA-256 of each of its other files."""

    name: str
    updates: int
    entries: dict[str, dict[str, Any]]

    def as_json(self) -> bytes:
        """The content of the file, with a SHA-256 of itself."""
        plain = {"name": self.name, "updates": self.updates, "files": self.entries}
        return files.as_json({**plain, "sha256": _own_digest(plain)})


def read(folder: Path) -> Manifest:
    """The manifest in a checkpoint's folder.

    Raises: DataError if it is missing, damaged, or belongs to another folder.
    """
    path = folder / contents.MANIFEST
    plain = read_json(path, most_bytes=MOST_MANIFEST_BYTES)
    if not isinstance(plain, dict) or set(plain) != {"name", "updates", "files", "sha256"}:
        raise errors.DataError(
            f"{path}: damaged (no manifest of a checkpoint); use another checkpoint"
        )
    found = plain.pop("sha256")
    problem = _wrong(plain)
    if not problem and found != _own_digest(plain):
        problem = "its SHA-256 of itself is another"
    if problem:
        raise errors.DataError(f"{path}: damaged ({problem}); use another checkpoint")
    if step_names.place_of(folder.name) and folder.name != plain["name"]:
        raise errors.DataError(
            f"{path}: belongs to {plain['name']}: the folder was renamed; give it its own name back"
        )
    return Manifest(plain["name"], plain["updates"], plain["files"])


def verified(folder: Path, *, past_cache: bool = False) -> Manifest:
    """The manifest, once every file that it lists has its size and its SHA-256.

    With `past_cache` the files are asked of the disk where the system allows, not of its memory.
    Raises: DataError naming the file that is missing or damaged.
    """
    manifest = read(folder)
    for (
        name,
        entry,
    ) in manifest.entries.items():  # sizes first: they tell most damage without reading
        size = _size(folder / name)
        if size != entry["bytes"]:
            raise errors.DataError(
                f"{folder / name}: has {size} bytes, not {entry['bytes']}: damaged; use another checkpoint"
            )
    for name, entry in manifest.entries.items():
        found = _digest(folder / name, past_cache=past_cache)
        if found != entry["sha256"]:
            raise errors.DataError(
                f"{folder / name}: SHA-256 is {found}, not {entry['sha256']}: damaged; use another checkpoint"
            )
    return manifest


def read_json(path: Path, *, most_bytes: int | None = None) -> Any:
    """The plain value in a file that may hold anything.

    Raises: DataError if it cannot be read or is no JSON.
    """
    size = _size(path)
    if most_bytes is not None and size > most_bytes:
        raise errors.DataError(
            f"{path}: damaged (has {size} bytes, {most_bytes} at most); use another checkpoint"
        )
    try:
        return json.loads(path.read_bytes().decode())
    except OSError as error:
        raise errors.DataError(
            f"{path}: cannot be read ({error.strerror}); use another checkpoint"
        ) from error
    except (ValueError, RecursionError) as error:
        raise errors.DataError(f"{path}: damaged ({error}); use another checkpoint") from error


def _wrong(plain: Mapping[str, Any]) -> str | None:
    """What is not as this module writes it, in words."""
    if (
        not isinstance(plain["name"], str)
        or type(plain["updates"]) is not int
        or not isinstance(plain["files"], dict)
    ):
        return "name, updates or files are of another type"
    for name, entry in plain["files"].items():
        if not contents.is_own(name) or name == contents.MANIFEST:
            return f"lists {name!r}, no file of a checkpoint"
        if not isinstance(entry, dict) or {key: type(value) for key, value in entry.items()} != {
            "bytes": int,
            "sha256": str,
        }:
            return f"bytes and sha256 of {name} are not there"
    missing = [name for name in _REQUIRED if name not in plain["files"]]
    return f"lists no {missing[0]}" if missing else None


def _own_digest(plain: Mapping[str, Any]) -> str:
    """Of the values, whatever the order and the spaces between them."""
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _size(path: Path) -> int:
    try:
        if not path.exists():
            raise errors.DataError(f"{path}: missing; use another checkpoint")
        if not path.is_file():
            raise errors.DataError(f"{path}: is no file; use another checkpoint")
        return path.stat().st_size
    except OSError as error:
        raise errors.DataError(
            f"{path}: cannot be read ({error.strerror}); use another checkpoint"
        ) from error


def _digest(path: Path, *, past_cache: bool) -> str:
    sha256, piece = hashlib.sha256(), memoryview(bytearray(PIECE_BYTES))
    try:
        with path.open("rb", buffering=0) as file:
            if past_cache and hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while size := file.readinto(piece):
                sha256.update(piece[:size])
    except OSError as error:
        raise errors.DataError(
            f"{path}: cannot be read ({error.strerror}); use another checkpoint"
        ) from error
    return sha256.hexdigest()
