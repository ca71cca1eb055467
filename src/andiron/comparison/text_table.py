"""Rows as text in columns, for a terminal and for programs such as grep and awk.

>>> print(table(["run", "lr"], [["a", 0.1], ["bcd", None]]))
run   lr
a    0.1
bcd    -
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.plain.plain_values import as_text, is_number
from andiron.plain.readable import number, shortened

WIDEST = 48  # characters of a cell
NOTHING = "-"
NUMBER = re.compile(r"[-+]?(\d|nan|inf)")  # with what follows it, such as a unit


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A line for the headers and one for each row; columns of numbers are aligned at the right."""
    cells = [[cell(each) for each in row] for row in [headers, *rows]]
    columns = list(zip(*cells, strict=True))
    widths = [max(map(len, column)) for column in columns]
    are_numbers = [_are_numbers(column) for column in zip(*rows, strict=True)]
    sides = ["rjust" if is_right else "ljust" for is_right in are_numbers or [False] * len(widths)]
    lines = (
        "  ".join(
            getattr(each, side)(width) for each, side, width in zip(row, sides, widths, strict=True)
        )
        for row in cells
    )
    return "\n".join(line.rstrip() for line in lines)


def cell(value: Any) -> str:
    """A value on one line, shortened, without control characters."""
    if value is None:
        return NOTHING
    if isinstance(value, Path):  # whole, to be copied
        return errors.printable(str(value).replace("\n", "\\n"))
    return shortened(errors.printable_line(as_text(value)[: 2 * WIDEST]), WIDEST)


def measured(value: float | None) -> str | None:
    """A metric's value as text; None for none."""
    return None if value is None else number(value)


def _are_numbers(column: Sequence[Any]) -> bool:
    known = [each for each in column if each is not None]
    return bool(known) and all(
        is_number(each) or (isinstance(each, str) and NUMBER.match(each)) for each in known
    )
