"""Files and folders that are written whole or not at all, and plain values as JSON."""

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def write(path: Path, content: bytes) -> None:
    """Replaces the file at `path` atomically and durably: readers see the old content or the new, never a part."""
    partial = _partial(path)
    try:
        with partial.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Replaces the file at `path` by a plain value as JSON."""
    write(path, (json.dumps(value, indent=2) + "\n").encode())


def read_json(path: Path) -> Any:
    """The plain value in a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A temporary folder to fill, which becomes `path` on leaving; if the filling fails, nothing is left.

    Raises: OSError if `path` is there already and not empty.
    """
    partial = _partial(path)
    partial.mkdir(parents=True)
    try:
        yield partial
        _sync(partial)
        partial.rename(path)
    except BaseException:
        remove_folder(partial)
        raise
    _sync(path.parent)


def remove_folder(path: Path) -> None:
    """Removes a folder of files and the files in it; a folder within it is an error."""
    for file in path.iterdir():
        file.unlink()
    path.rmdir()


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")


def _sync(folder: Path) -> None:
    """Makes the names in a folder durable, not only the contents they name."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
