"""Files and folders that are written whole or not at all, and plain values as JSON."""

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write(path: Path, content: bytes) -> None:
    """Replaces the file at `path` atomically and durably: readers see the old content or the new, never a part."""
    partial = _partial(path)
    try:
        _write_through(partial, content)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Replaces the file at `path` by a plain value as JSON, laid out for a reader."""
    write(path, (json.dumps(value, indent=2) + "\n").encode())


def as_json(value: Any) -> bytes:
    """A plain value as JSON on one line: laying it out takes Python's encoder ten times as long."""
    return (json.dumps(value) + "\n").encode()


def read_json(path: Path) -> Any:
    """The plain value in a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_folder(path: Path, contents: Mapping[str, bytes]) -> None:
    """Makes the folder at `path`, holding these files, durably: there is no such folder before it is whole.

    Raises: OSError if `path` is there already and not empty; nothing is left then.
    """
    partial = _partial(path)
    partial.mkdir(parents=True)
    try:
        for name, content in contents.items():
            _write_through(partial / name, content)
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


def _write_through(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        written = 0
        while written < len(content):  # one call takes at most 2 GiB
            written += os.write(descriptor, memoryview(content)[written:])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")


def _sync(folder: Path) -> None:
    """Makes the names in a folder durable, not only the contents they name."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
