"""The logged values in a run's metrics.jsonl, read as the file grows.

The file is untrusted: overlong and malformed lines are skipped.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from andiron.disk import files
from andiron.wings.runs import logged_lines
from andiron.wings.screen.curves import Curves

MOST_BYTES = 32 * 2**20  # the earlier part of a longer file is not read
MOST_VALUES = 10_000  # in a line
LONGEST_NAME = 200
OnLine = Callable[[logged_lines.Line], object]


class FollowedValues:
    """Follows the file at `path`; `curves` has the values read so far."""

    def __init__(
        self, path: Path, curves: Curves | None = None, on_line: OnLine = lambda line: None
    ):
        self.curves = curves or Curves()
        self._on_line = on_line  # called with each new line
        self._path = path
        self._read = 0
        self._file: tuple[int, int] | None = None  # device and inode

    def read(self) -> None:
        """Reads newly appended lines."""
        # missing, or not a regular file
        with suppress(OSError, ValueError), files.opened(self._path) as file:
            status = os.fstat(file.fileno())
            identity = status.st_dev, status.st_ino
            if identity != self._file or status.st_size < self._read:  # or cut back by a resume
                self._file, self._read = identity, max(0, status.st_size - MOST_BYTES)
                self.curves.clear()
            file.seek(self._read)
            for line in logged_lines.whole(file):
                self._read += len(line)
                self._add(line)

    def _add(self, line: bytes) -> None:
        try:
            point = logged_lines.parsed(line)
        except ValueError:
            return
        if len(point.split) <= LONGEST_NAME and len(point.values) <= MOST_VALUES:
            values = {n: value for n, value in point.values.items() if len(n) <= LONGEST_NAME}
            self._on_line(point)
            self.curves.add(point.split, point.updates, point.epoch, values, point.over == "epoch")
