"""Text tables, for a terminal and for programs such as grep and awk.

>>> print(table(["run", "lr"], [["a", 0.1], ["bcd", None]]))
run   lr
a    0.1
bcd    -
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from andiron.plain.plain_values import as_text, is_number
from andiron.plain.readable import number, printable, printable_line, shortened

WIDEST = 48  # characters of a cell on a terminal
MOST_LETTERS = 10_000  # in a file or a pipe, which have no width
NOTHING = "-"
NUMBER = re.compile(r"[-+]?(\d|nan|inf)")  # a unit may follow


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A line for the headers and one for each row; columns of numbers are right-aligned.

    Empty without rows.
    """
    if not rows:
        return ""
    columns = []
    for column in zip(headers, *rows, strict=True):
        cells = [cell(value) for value in column]
        side, width = ">" if _are_numbers(column[1:]) else "<", max(map(len, cells))
        columns.append([f"{text:{side}{width}}" for text in cells])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def cell(value: object) -> str:
    """A value on one line, shortened, without control characters."""
    if value is None:
        return NOTHING
    if isinstance(value, Path):  # never shortened, to be copied
        return printable(str(value).replace("\n", "\\n"))
    widest = WIDEST if sys.stdout.isatty() else MOST_LETTERS
    return shortened(printable_line(as_text(value)[: 2 * widest]), widest)


def measured(value: float | None) -> str | None:
    """A metric's value as text; None for None."""
    return None if value is None else number(value)


def _are_numbers(column: Sequence[object]) -> bool:
    values = [value for value in column if value is not None]
    return bool(values) and all(
        is_number(value) or (isinstance(value, str) and NUMBER.match(value)) for value in values
    )
