"""The logged values in a run's metrics.jsonl, read as the file grows.

The file is data, whoever wrote it: lines that are too long or of another form are passed over.
"""

import os
from pathlib import Path
from typing import Any

from andiron import files
from andiron.screen.curves import Curves

MOST_BYTES = 32 * 2**20  # of a longer file the earlier part is not read
BYTES_AT_ONCE = 4 * 2**20
MOST_VALUES = 10_000  # in a line
LONGEST_NAME = 200
LARGEST = 10**15  # whole number: a longer one is no float
COORDINATES = ("split", "updates", "epoch", "over")


class FollowedValues:
    """The file at `path`; `curves` has what was read of it so far."""

    def __init__(self, path: Path, curves: Curves | None = None):
        self.curves = curves or Curves()
        self._path = path
        self._read = 0
        self._file: tuple[int, int] | None = None  # device and inode

    def read(self, until: int | None = None) -> None:
        """Reads what was appended since, up to byte `until` of the file."""
        try:
            with files.opened(self._path) as file:
                self._continue(file, until)
        except (OSError, ValueError):  # not there yet, or no file
            return

    def _continue(self, file: Any, until: int | None) -> None:
        status = os.fstat(file.fileno())
        size = status.st_size if until is None else min(until, status.st_size)
        is_same = self._file == (status.st_dev, status.st_ino)
        if not is_same or size < self._read:  # another file, or cut back by a resume
            self._file = status.st_dev, status.st_ino
            self._read = max(0, size - MOST_BYTES)
            self.curves.clear()
        while self._read < size:
            file.seek(self._read)
            piece = file.read(min(BYTES_AT_ONCE, size - self._read))
            whole = piece.rfind(b"\n") + 1
            if not whole and len(piece) < BYTES_AT_ONCE:  # a line that is being written
                return
            for line in piece[: whole or None].splitlines():
                self._add(line)
            self._read += whole or len(piece)

    def _add(self, line: bytes) -> None:
        try:
            point = files.parsed_json(line, MOST_VALUES)
        except ValueError:
            return
        if isinstance(point, dict) and _is_sound(point):
            values = {name: value for name, value in point.items() if _is_value(name, value)}
            is_whole = point.get("over") == "epoch"
            self.curves.add(point["split"], point["updates"], point["epoch"], values, is_whole)


def _is_sound(point: dict[str, Any]) -> bool:
    split, updates, epoch = (point.get(name) for name in COORDINATES[:3])
    are_counts = all(type(each) is int and 0 <= each < LARGEST for each in (updates, epoch))
    return isinstance(split, str) and len(split) <= LONGEST_NAME and are_counts


def _is_value(name: str, value: Any) -> bool:
    is_number = type(value) is float or (type(value) is int and abs(value) < LARGEST)
    return is_number and name not in COORDINATES and len(name) <= LONGEST_NAME


def tail(path: Path, lines: int, limit: int = 2**16) -> list[str]:
    """The last lines of a text file, as far as they are within its last `limit` bytes."""
    try:
        with files.opened(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - limit))
            found = file.read(limit).decode(errors="replace").splitlines()
    except (OSError, ValueError):
        return []
    return found[-lines:]
