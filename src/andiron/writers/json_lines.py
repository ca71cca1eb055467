"""Every logged value as one line of JSON."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from andiron import append_only
from andiron.protocols import Point


class JsonLinesWriter:
    """Appends each point to `path` as it comes, so that a killed run has lost none; a half line at its end is cut off."""

    def __init__(self, path: Path):
        self._file = append_only.AppendOnlyFile(path)
        self._cut_half_line()

    def write(self, point: Point) -> None:
        """One line: split, updates, epoch, what the values are means over, and the values; none for a point without any."""
        if not point.values:
            return
        over = "epoch" if point.whole_epoch else "window"
        line = {
            "split": point.split,
            "updates": point.updates,
            "epoch": point.epoch,
            "over": over,
            **point.values,
        }
        self._file.append((json.dumps(line) + "\n").encode())

    def position(self) -> dict[str, Any]:
        """Where the file ends with all that was written, for `rewind`."""
        return {"bytes": self._file.end}

    def rewind(self, position: Mapping[str, Any], updates: int) -> None:
        """Cuts the file to where it was after `updates`: what a resumed run logs again is there once."""
        self._file.truncate(position["bytes"])
        self._cut_half_line()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _cut_half_line(self) -> None:
        size = self._file.size
        if size and (end := whole_lines(self._file.path, size)) < size:
            self._file.truncate(end)


def whole_lines(path: Path, size: int) -> int:
    """Where the last whole line among the first `size` bytes of the file ends."""
    with path.open("rb") as file:
        while size:
            start = max(0, size - 2**16)
            file.seek(start, os.SEEK_SET)
            newline = file.read(size - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            size = start
    return 0
