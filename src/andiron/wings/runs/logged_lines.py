"""The lines of a run's metrics.jsonl, read back; the file is untrusted.

>>> parsed(b'{"split": "train", "updates": 20, "epoch": 1, "over": "window", "loss": 0.5}')
Line(split='train', updates=20, epoch=1, over='window', values={'loss': 0.5})
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from andiron import errors
from andiron.disk import files
from andiron.plain.plain_values import Number, is_number, or_nan
from andiron.run_folder import MOST_IN_A_LINE

MOST_BYTES = 2**30  # of a file: a million log points
MOST_COUNTED = 2**53  # every smaller integer is exact in a float
MOST_CELLS = 2**26  # a million log points of sixty values; each takes 8 bytes and more
Table = dict[str, list[Any]]  # columns of the same length


class Line(NamedTuple):
    """A logged point; its values are means `over` a window or an epoch, NaN if not finite."""

    split: str
    updates: int
    epoch: int
    over: str
    values: dict[str, Number]


def read(path: Path, most_bytes: int = MOST_BYTES, holding: bytes = b"") -> Iterator[Line]:
    """The complete lines of the file that contain these bytes; none without a file.

    Raises: DataError for a file that is too large or unreadable, or naming a damaged line.
    """
    try:
        with files.opened(path) as file:
            files.check_size(file, most_bytes)
            for number, content in enumerate(whole(file), 1):
                if holding in content:
                    yield _parsed_line(path, number, content)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise errors.DataError(f"{path}: cannot be read ({error}); restore it") from error


def whole(file: BinaryIO) -> Iterator[bytes]:
    """The lines from the file's position on, without an unfinished last line.

    A line that is too long comes in unparsable pieces.
    """
    while content := file.readline(MOST_IN_A_LINE):
        if content.endswith(b"\n") or len(content) == MOST_IN_A_LINE:
            yield content


def parsed(content: bytes) -> Line:
    """The point in a line.

    Raises: ValueError for a line that no run writes.
    """
    plain = files.parsed_json(content)
    if not isinstance(plain, dict):
        raise ValueError("not an object")
    split, updates, epoch, over = (plain.pop(name, None) for name in Line._fields[:4])
    if not (isinstance(split, str) and isinstance(over, str)):
        raise ValueError("split and over should be text")
    if not all(type(entry) is int and 0 <= entry < MOST_COUNTED for entry in (updates, epoch)):
        raise ValueError("updates and epoch should be counts")
    values = {name: or_nan(value) for name, value in plain.items()}
    if not all(map(is_number, values.values())):
        raise ValueError("its values should be numbers")
    return Line(split, updates, epoch, over, values)


def as_table(path: Path) -> Table:
    """The columns split, updates, epoch and over, then one for each logged name; None for no value.

    Raises: as `read`; DataError for more columns and lines than memory can hold.
    """
    *coordinates, _ = Line._fields
    rows = [dict(zip(coordinates, line, strict=False)) | line.values for line in read(path)]
    names = dict.fromkeys([*coordinates, *(name for row in rows for name in row)])
    if len(names) * len(rows) > MOST_CELLS:
        what = f"has {len(names)} columns in {len(rows)} lines, more than a table of them can hold"
        raise errors.DataError(f"{path}: {what}; read its lines one by one")
    return {name: [row.get(name) for row in rows] for name in names}


def _parsed_line(path: Path, number: int, content: bytes) -> Line:
    try:
        return parsed(content)
    except ValueError as error:
        raise errors.DataError(
            f"{path}, line {number}: damaged ({error}); was it cut off or edited?"
        ) from error
