"""Curves over updates in text: with Braille dots, eight to a character, or each with its own mark.

A library for such plots was measured at 18 ms a drawing; this takes about 1 ms, and a display
has 1 % of the training's time.
"""

from collections.abc import Iterable, Sequence

from andiron import readable
from andiron.screen.rows import Row, piece

AXIS = 9  # columns of the numbers at the left
BLANK = 0x2800
LARGEST = 1e300  # what is larger, infinite or NaN is left out
# the bit of the dot at (column, row) of a character, from the top left; Unicode's order
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
Line = tuple[str, Sequence[int], Sequence[float]]  # style or mark, updates, values
Span = tuple[float, float]


def chart(
    lines: Iterable[Line], width: int, height: int, share: float = 1.0, *, is_marked: bool = False
) -> list[Row]:
    """Rows of a chart over the last `share` of the updates; empty where nothing can be drawn.

    The last line is on top. With `is_marked` each is drawn with its mark, in place of dots.
    """
    columns, rows = width - AXIS - 1, height - 1
    shown = _visible(lines, share)
    if columns < 4 or rows < 2 or not shown:
        return []
    updates = [update for _, points in shown for update, _ in points]
    values = [value for _, points in shown for _, value in points]
    across, up = _padded(min(updates), max(updates)), _padded(min(values), max(values))
    cells = [[ord(" ") if is_marked else BLANK] * columns for _ in range(rows)]
    styles = [[""] * columns for _ in range(rows)]
    wide, high = (1, 1) if is_marked else (2, 4)  # dots of a character
    for style, points in shown:
        dots = [_dot(point, across, up, columns * wide, rows * high) for point in points]
        for x, y in _connected(dots):
            if is_marked:
                cells[y][x] = ord(style)
            else:
                cells[y // high][x // wide] |= DOTS[x % wide][y % high]
                styles[y // high][x // wide] = style
    return [*_with_axis(cells, styles, up), _under(across, columns)]


def _visible(
    lines: Iterable[Line], share: float
) -> list[tuple[str, list[tuple[int, float]]]]:
    """The finite points within the last `share` of all updates, by style."""
    whole = [
        (style, [(u, v) for u, v in zip(updates, values, strict=True) if abs(v) < LARGEST])
        for style, updates, values in lines
    ]
    last = max((points[-1][0] for _, points in whole if points), default=0)
    first = last * (1 - share)
    found = [(style, [point for point in points if point[0] >= first]) for style, points in whole]
    return [(style, points) for style, points in found if points]


def _padded(low: float, high: float) -> Span:
    """The span, widened where it is a single value."""
    if high > low:
        return low, high
    around = abs(low) / 10 or 1.0
    return low - around, high + around


def _dot(
    point: tuple[int, float], across: Span, up: Span, columns: int, rows: int
) -> tuple[int, int]:
    """The column and the row of a point, counted from the top left."""
    x = (point[0] - across[0]) / (across[1] - across[0])
    y = (point[1] - up[0]) / (up[1] - up[0])
    return round(x * (columns - 1)), round((1 - y) * (rows - 1))


def _connected(dots: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """The dots and those on the straight lines between neighbours."""
    found = set(dots)
    for (x, y), (to_x, to_y) in zip(dots, dots[1:], strict=False):
        steps = max(abs(to_x - x), abs(to_y - y))
        for step in range(1, steps):
            found.add((x + round(step * (to_x - x) / steps), y + round(step * (to_y - y) / steps)))
    return found


def _with_axis(cells: list[list[int]], styles: list[list[str]], up: Span) -> list[Row]:
    rows = []
    last = len(cells) - 1
    for number, (codes, colours) in enumerate(zip(cells, styles, strict=True)):
        is_labelled = number in (0, last // 2, last)
        value = up[1] - (up[1] - up[0]) * number / last
        label = readable.number(value) if is_labelled else ""
        row = [piece(f"{label:>{AXIS}}"[:AXIS], "dim"), piece("┤" if is_labelled else "│", "dim")]
        start = 0
        for end in range(1, len(codes) + 1):  # a piece for each run of one style
            if end == len(codes) or colours[end] != colours[start]:
                row.append(piece("".join(map(chr, codes[start:end])), colours[start]))
                start = end
        rows.append(row)
    return rows


def _under(across: Span, columns: int) -> Row:
    first, last = f"{across[0]:,.0f}", f"{across[1]:,.0f} updates"
    gap = columns - len(first) - len(last)
    return [piece(" " * AXIS + "└" + (first + " " * gap + last if gap > 0 else last), "dim")]
