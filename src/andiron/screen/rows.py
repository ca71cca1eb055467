"""Rows of a screen: pieces of text with a style, fitted to a width in terminal columns.

Every text passes `piece`, which removes control characters.
"""

from collections.abc import Iterable
from functools import cache

from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style

from andiron import errors

Row = list[Segment]
GAP = 2  # between two columns of a table


@cache
def style(name: str) -> Style:
    """The style of a name such as `bold red`."""
    return Style.parse(name)


def piece(text: str, look: str = "") -> Segment:
    """Untrusted text on one line, without control characters."""
    return Segment(errors.printable_line(text), style(look) if look else None)


def fitted(row: Row, width: int) -> Row:
    """The row cut or padded with spaces to `width` columns."""
    return Segment.adjust_line_length(row, width, pad=True)


def boxed(title: str, rows: list[Row], width: int, height: int) -> list[Row]:
    """The rows below a title line: `height` rows of `width` columns in total."""
    head = [piece(f"─ {title} ", "cyan"), piece("─" * width, "dim")]
    whole = [head, *([piece(" "), *row] for row in rows[: height - 1])]
    return [fitted(row, width) for row in (*whole, *([] for _ in range(height - len(whole))))]


def beside(left: list[Row], right: list[Row]) -> list[Row]:
    """Two blocks of the same height next to each other."""
    return [[*a, piece(" "), *b] for a, b in zip(left, right, strict=True)]


def columns(table: list[list[Segment]]) -> list[Row]:
    """The rows of a table: the first column left-aligned, the others right-aligned."""
    widths = [max(cell.cell_length for cell in column) for column in zip(*table, strict=True)]
    return [
        [part for place, cell in enumerate(row) for part in _cell(cell, widths[place], place)]
        for row in table
    ]


def _cell(cell: Segment, width: int, place: int) -> Row:
    blank = piece(" " * (width - cell.cell_length + (GAP if place else 0)))
    return [blank, cell] if place else [cell, blank]


def written(row: Iterable[Segment], colours: ColorSystem | None) -> str:
    """The row as text for a terminal; without escape sequences if `colours` is None."""
    return "".join(
        look.render(text, color_system=colours) if look and colours else text
        for text, look, _ in row
    )
