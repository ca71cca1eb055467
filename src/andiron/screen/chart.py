"""Curves over updates in text: with Braille dots, eight to a character, or each with its own mark.

By hand, for a display has 1 % of the training's time. Three curves of 500 points on 100x20 took
plotext 6.1 24 ms of a processor and plotille 6.0 15 ms, and take this 4 ms; importing plotext took
150 ms.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter

from rich.segment import Segment

from andiron.plain import readable
from andiron.screen.rows import Row, piece

AXIS = 9  # columns of the numbers at the left
BLANK = 0x2800
LARGEST = 1e300  # what is larger, infinite or NaN is left out
# the bit of the dot at (column, row) of a character, from the top left; Unicode's order
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
Line = tuple[str, Sequence[int], Sequence[float]]  # style or mark, updates, values
Points = list[tuple[float, float]]


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
    blank, wide, high = (ord(" "), 1, 1) if is_marked else (BLANK, 2, 4)  # dots of a character
    across, up = (
        _span([point[axis] for _, points in shown for point in points]) for axis in (0, 1)
    )
    column, row = _place(*across, columns * wide), _place(*up[::-1], rows * high)
    cells = [[("", blank)] * columns for _ in range(rows)]  # style and character
    for style, points in shown:
        for x, y in set(_connected([(column(at), row(value)) for at, value in points])):
            line, place = cells[y // high], x // wide
            dots = line[place][1] | DOTS[x % wide][y % high]
            line[place] = ("", ord(style)) if is_marked else (style, dots)
    drawn = [
        [
            _label(number, rows - 1, *up),
            *(piece("".join(chr(code) for _, code in cells), style)
              for style, cells in groupby(line, itemgetter(0))),
        ]
        for number, line in enumerate(cells)
    ]
    first, last = f"{across[0]:,.0f}", f"{across[1]:,.0f} updates"
    gap = columns - len(first) - len(last)
    under = first + " " * gap + last if gap > 0 else last
    return [*drawn, [piece(" " * AXIS + "└" + under, "dim")]]


def _visible(lines: Iterable[Line], share: float) -> list[tuple[str, Points]]:
    """The finite points within the last `share` of all updates, by style."""
    finite = [
        (style, [point for point in zip(*line, strict=True) if abs(point[1]) < LARGEST])
        for style, *line in lines
    ]
    last = max((points[-1][0] for _, points in finite if points), default=0)
    kept = ((style, [each for each in points if each[0] >= last * (1 - share)])
            for style, points in finite)  # fmt: skip
    return [(style, points) for style, points in kept if points]


def _span(values: Sequence[float]) -> tuple[float, float]:
    """The lowest and the highest value, apart from each other where it is a single one."""
    low, high = min(values), max(values)
    around = 0 if high > low else abs(low) / 10 or 1.0
    return low - around, high + around


def _place(start: float, end: float, number: int) -> Callable[[float], int]:
    """The place of a value among so many, which lead from `start` to `end`."""
    return lambda value: round((value - start) / (end - start) * (number - 1))


def _connected(dots: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The dots and those on the straight lines between neighbours."""
    for (x, y), (to_x, to_y) in pairwise([*dots, dots[-1]]):
        yield x, y
        steps = max(abs(to_x - x), abs(to_y - y))
        for step in range(1, steps):
            yield x + round(step * (to_x - x) / steps), y + round(step * (to_y - y) / steps)


def _label(number: int, last: int, low: float, high: float) -> Segment:
    """The axis at the left of a row: a value at the first, the middle and the last."""
    if number not in (0, last // 2, last):
        return piece(" " * AXIS + "│", "dim")
    value = readable.number(high - (high - low) * number / last)
    return piece(f"{value:>{AXIS}}"[:AXIS] + "┤", "dim")
