"""Every logged value of a run as a table: the lines of metrics.jsonl, a column for each name.

>>> import tempfile
>>> folder = RunFolder(Path(tempfile.mkdtemp()))
>>> line = '{"split": "train", "updates": 20, "epoch": 1, "over": "window", "loss": 0.5}'
>>> _ = folder.metrics.write_text(line + "\\n" + line.replace("loss", "accuracy") + "\\n")
>>> table = read(folder)
>>> table["updates"], table["loss"], table["accuracy"]
([20, 20], [0.5, None], [None, 0.5])
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from andiron import errors, files
from andiron.run_folder import RunFolder

MOST_LINE = 2**20  # bytes of a line: ten thousand values
MOST_CELLS = 2**26  # a million log points of sixty values; each takes 8 bytes and more
COORDINATES = ("split", "updates", "epoch", "over")  # of every line
Table = dict[str, list[Any]]  # columns of the same length


def read(folder: RunFolder) -> Table:
    """The columns split, updates, epoch and over, then one for each logged name; None for no value.

    Empty columns if nothing was logged as JSON lines. `pandas.DataFrame` and `polars.DataFrame`
    take it as it is. Half a line at the end, which a running process may be writing, is left out.
    Raises: DataError naming a line that is damaged.
    """
    table: Table = {name: [] for name in COORDINATES}
    for number, line in enumerate(_lines(folder.metrics)):
        for name, value in line.items():
            table.setdefault(name, [None] * number).append(value)
        if len(table) * number > MOST_CELLS:
            what = f"has {len(table)} columns in {number} lines, more than a table of them can hold"
            raise errors.DataError(f"{folder.metrics}: {what}; read its lines one by one")
        for column in table.values():
            if len(column) <= number:
                column.append(None)
    return table


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with files.opened(path) as file:
            for number, content in enumerate(iter(lambda: file.readline(MOST_LINE), b""), 1):
                if content.endswith(b"\n") or len(content) == MOST_LINE:
                    yield _parsed(path, number, content)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise errors.DataError(f"{path}: cannot be read ({error}); restore it") from error


def _parsed(path: Path, number: int, content: bytes) -> dict[str, Any]:
    try:
        line = files.parsed_json(content)
        if not isinstance(line, dict) or any(isinstance(v, dict | list) for v in line.values()):
            raise ValueError("not an object of values")
    except ValueError as error:
        raise errors.DataError(
            f"{path}, line {number}: damaged ({error}); was it edited?"
        ) from error
    return line
