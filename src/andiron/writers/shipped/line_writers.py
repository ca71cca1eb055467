"""Writes every logged value of a run to a file, in whole lines of JSON or CSV.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "metrics.jsonl"
>>> writer = JsonLinesWriter(path)
>>> writer.write(Point("train", updates=20, epoch=1, values={"loss": 0.5}))
>>> writer.close()
>>> path.read_text()
'{"split": "train", "updates": 20, "epoch": 1, "over": "window", "loss": 0.5}\\n'
"""

import csv
import hashlib
import io
from abc import ABC, abstractmethod
from pathlib import Path

from andiron import errors
from andiron.disk import append_only
from andiron.writers.fanout import AcceptedNames
from andiron.plain.plain_values import strict_json
from andiron.protocols import Point, Position
from andiron.run_folder import CSV_HEADER, MOST_IN_A_LINE, RunFolder

FIRST, LAST = 128, 1024  # bytes that identify a file: its first value, and its last lines


class LineWriter(ABC):
    """Appends the lines of each point to the file at `path`; a killed process loses none.

    An incomplete last line, left by a kill, is cut off. `header` begins a file.
    Raises: DataError for a file that begins otherwise.
    """

    header = b""
    refused: str  # in a name
    sends_data = False

    def __init__(self, path: Path):
        self._name = AcceptedNames(path.name, self.refused)
        self._file = append_only.AppendOnlyFile(path, header=self.header)
        try:
            with path.open("rb") as file:
                beginning = file.read(len(self.header))
            if not self.header.startswith(beginning):
                why = f"begins with {beginning!r}, so another program wrote it; move it elsewhere"
                raise errors.DataError(f"{path}: {why}")
            self._cut_half_line()
        except errors.DataError:
            self._file.close()
            raise

    @abstractmethod
    def lines(self, point: Point) -> str:
        """The lines of a point, each with its newline."""

    def write(self, point: Point) -> None:
        """Appends the point's lines."""
        if point.values:
            self._file.append(self.lines(point).encode())

    def position(self) -> Position:
        """The size of the file so far, and its checksums, for `rewind`."""
        path, end = self._file.path, self._file.end
        is_complete = not self._file.pending and path.is_file()  # else a full disk, or removed
        return {"bytes": end} | (_checksums(path, end, end) if is_complete else {})

    def rewind(self, position: Position, updates: int) -> None:
        """Truncates the file to the position, so that a resumed run logs no value twice.

        Raises: DataError for a file of another run, or an edited one; it is not truncated then.
        """
        path, end = self._file.path, position["bytes"]
        checksums = _checksums(path, end, self._file.size)
        if any(position.get(name, checksum) != checksum for name, checksum in checksums.items()):
            reason = "another run wrote its lines, or they were edited"
            raise errors.DataError(f"{path}: {reason}; restore it, or remove it to begin a new one")
        self._file.truncate(end)
        self._cut_half_line()

    def close(self) -> str | None:
        """Closes the file; returns a text about lost values, or None."""
        return self._file.close()

    def _cut_half_line(self) -> None:
        if size := self._file.size:
            self._file.truncate(_whole_lines(self._file.path, size))


class JsonLinesWriter(LineWriter):
    """Appends a line of JSON to the file at `path` for each point that has values.

    A value that is NaN or infinite is null. `over` says whether the values are means over the
    `window` since the last log point or over the `epoch`.
    """

    refused = r"\A(?:split|updates|epoch|over)\Z"  # the coordinates of a line

    def lines(self, point: Point) -> str:
        """The line of a point: its coordinates, and its values by name."""
        values = {self._name[name]: value for name, value in point.values.items()}
        return strict_json({**_coordinates(point), **values}) + "\n"


class CsvWriter(LineWriter):
    """Appends a row to `run_dir`/metrics.csv for each value of each point, `over` as in JSON.

    The columns do not depend on the metrics, so the file only grows. For a column per metric:
    `pandas.read_csv(path).pivot_table(index="updates", columns=["split", "metric"])`.
    """

    header = CSV_HEADER
    refused = r"[\r\n\0\ud800-\udfff]"  # a row is a line of UTF-8

    def __init__(self, run_dir: Path):
        super().__init__(RunFolder(run_dir).metrics_csv)

    def lines(self, point: Point) -> str:
        """The rows of a point."""
        rows = io.StringIO()
        csv.writer(rows, lineterminator="\n").writerows(
            (*_coordinates(point).values(), self._name[name], value)
            for name, value in point.values.items()
        )
        return rows.getvalue()


def _coordinates(point: Point) -> dict[str, str | int]:
    """Split, updates and epoch of a point, and whether its means are over a window or an epoch."""
    over = "epoch" if point.whole_epoch else "window"
    return {"split": point.split, "updates": point.updates, "epoch": point.epoch, "over": over}


def _checksums(path: Path, end: int, size: int) -> dict[str, str]:
    """Checksums of the first and last of `end` bytes, if within the file's `size`."""
    spans, checksums = {"first": (0, min(FIRST, end)), "last": (max(0, end - LAST), end)}, {}
    with path.open("rb") as file:
        for name, (start, stop) in spans.items():
            if stop <= size:  # a kill may have lost lines
                file.seek(start)
                checksums[name] = hashlib.sha256(file.read(stop - start)).hexdigest()
    return checksums


def _whole_lines(path: Path, size: int) -> int:
    """The end of the last whole line among the first `size` bytes of a file.

    Raises: DataError for a last line longer than any written one.
    """
    start = max(0, size - MOST_IN_A_LINE)
    with path.open("rb") as file:
        file.seek(start)
        end = file.read(size - start).rfind(b"\n") + 1
    if start and not end:
        reason = f"its last {MOST_IN_A_LINE:,} bytes are not a valid line"
        raise errors.DataError(f"{path}: damaged ({reason}); restore it from a copy, or remove it")
    return start + end
