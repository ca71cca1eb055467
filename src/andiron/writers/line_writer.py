"""A writer whose file grows by whole lines and can be cut back to an earlier position."""

from abc import ABC, abstractmethod
from pathlib import Path

from andiron import append_only
from andiron.protocols import Point, Position


class LineWriter(ABC):
    """Appends the lines of each point to the file at `path`, so that a killed process loses none.

    Half a line at the end of the file, left by a kill, is cut off. `header` begins a new file.
    """

    def __init__(self, path: Path, header: bytes = b""):
        self._file = append_only.AppendOnlyFile(path, header=header)
        self._cut_half_line()

    @abstractmethod
    def lines(self, point: Point) -> str:
        """The lines of a point, each with its newline."""

    def write(self, point: Point) -> None:
        """Appends the point's lines."""
        if point.values:
            self._file.append(self.lines(point).encode())

    def position(self) -> Position:
        """The size of the file with everything appended so far, for `rewind`."""
        return {"bytes": self._file.end}

    def rewind(self, position: Position, updates: int) -> None:
        """Cuts the file back, so that a resumed run's values are there once."""
        self._file.truncate(position["bytes"])
        self._cut_half_line()

    def close(self) -> str | None:
        """Closes the file; returns what was lost, in words."""
        return self._file.close()

    def _cut_half_line(self) -> None:
        if size := self._file.size:
            self._file.truncate(whole_lines(self._file.path, size))


def coordinates(point: Point) -> dict[str, str | int]:
    """Split, updates and epoch of a point, and whether its means are of a window or an epoch."""
    over = "epoch" if point.whole_epoch else "window"
    return {"split": point.split, "updates": point.updates, "epoch": point.epoch, "over": over}


def whole_lines(path: Path, size: int) -> int:
    """The end of the last whole line among the first `size` bytes of a file."""
    with path.open("rb") as file:
        while size:
            start = max(0, size - 2**16)
            file.seek(start)
            newline = file.read(size - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            size = start
    return 0
