"""Rows of a screen: pieces of text with a style, fitted to a width in terminal columns.

Every text passes `piece`, which removes control characters.
"""

from collections.abc import Iterable, Sequence

from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style

from andiron.plain import readable

Row = list[Segment]
GAP = 2  # between two columns of a table
SHORTEST_NAME = 12  # columns; where less is left, a column of numbers is left out


def piece(text: str, look: str = "") -> Segment:
    """Untrusted text on one line, without control characters."""
    return Segment(readable.printable_line(text), Style.parse(look) if look else None)


def fitted(row: Row, width: int) -> Row:
    """The row padded with spaces to `width` columns, or cut to end with an ellipsis."""
    if Segment.get_line_length(row) <= width:
        return Segment.adjust_line_length(row, width, pad=True)
    return [*Segment.adjust_line_length(row, width - 1), piece("…" if width else "")]


def boxed(title: str, rows: list[Row], width: int, height: int) -> list[Row]:
    """The rows below a title line: `height` rows of `width` columns in total."""
    head = [piece(f"─ {title} ", "cyan"), piece("─" * (width - len(title) - 3), "dim")]
    whole = [head, *([piece(" "), *row] for row in rows[: height - 1])]
    return [fitted(row, width) for row in (*whole, *([] for _ in range(height - len(whole))))]


def beside(left: list[Row], right: list[Row]) -> list[Row]:
    """Two blocks of the same height next to each other."""
    return [[*a, piece(" "), *b] for a, b in zip(left, right, strict=True)]


def columns(headers: Sequence[str], table: list[Row], width: int) -> list[Row]:
    """A table below its headers: names left-aligned in the first column, numbers right-aligned.

    Names are shortened to fit `width`, then the last columns are left out; a number is never cut.
    """
    table = [[piece(word, "dim") for word in headers], *table]
    names, *numbers = zip(*table, strict=True)
    widths = [GAP + max(cell.cell_length for cell in column) for column in numbers]
    longest = max(cell.cell_length for cell in names)
    while len(widths) > 1 and min(longest, SHORTEST_NAME) + sum(widths) > width:
        widths.pop()
    room = max(1, min(longest, width - sum(widths)))
    rows = []
    for cell, *others in table:
        name = _shortened_name(cell, room)
        pairs = zip(others, widths, strict=False)
        right = [part for number, wide in pairs for part in (_blank(wide, number), number)]
        rows.append([name, _blank(room, name), *right])
    return rows


def _shortened_name(cell: Segment, room: int) -> Segment:
    """A name in at most `room` columns: its last word, such as the split, stays."""
    if cell.cell_length <= room:
        return cell
    name, _, last = cell.text.rpartition(" ")
    is_kept = bool(name) and room > len(last) + 3
    kept = f" {last}" if is_kept else ""
    text = readable.shortened(name if is_kept else cell.text, room - len(kept))
    return Segment(text + kept, cell.style)


def _blank(width: int, cell: Segment) -> Segment:
    return piece(" " * (width - cell.cell_length))


def written(row: Iterable[Segment], colours: ColorSystem | None) -> str:
    """The row as text for a terminal; without escape sequences if `colours` is None."""
    return "".join(
        look.render(text, color_system=colours) if look else text
        for text, look, _ in row
    )
