"""Every logged value as one line of JSON."""

import json
from pathlib import Path

from andiron.protocols import Point


class JsonLinesWriter:
    """Appends each point to `path` and flushes, so that a killed run has lost none."""

    def __init__(self, path: Path):
        self._file = path.open("a", encoding="utf-8")

    def write(self, point: Point) -> None:
        """One line: split, updates, epoch, what the values are means over, and the values; none for a point without any."""
        if not point.values:
            return
        over = "epoch" if point.whole_epoch else "window"
        line = {"split": point.split, "updates": point.updates, "epoch": point.epoch, "over": over, **point.values}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
