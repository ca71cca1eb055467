"""Curves over updates as text: in Braille dots, eight to a character, or in a mark for each curve.

No library: three curves of 500 points on 100x20 take 4 ms of CPU here, 24 ms in plotext 6.1 (and
150 ms to import it), 15 ms in plotille 6.0.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter

from rich.text import Text

from andiron.plain import readable

AXIS = 9  # columns of the numbers on the left
BLANK = 0x2800
# of a value on the axis, in order of preference; the last one always fits
FORMATS = ".6f", ".7f", ".3f", ".2f", ".1f", ".3e", ".1e"
LAYOUTS = readable.number, *(f"{{:{name}}}".format for name in FORMATS)
LARGEST = 1e300  # larger, infinite and NaN values are left out
# the bit of the dot at (column, row) of a character, from the top left; Unicode's order
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
Line = tuple[str, Sequence[int], Sequence[float]]  # style or mark, updates, values
Points = list[tuple[float, float]]


def chart(
    lines: Iterable[Line], width: int, height: int, share: float = 1.0, *, is_marked: bool = False
) -> list[Text]:
    """Lines of a chart over the last `share` of the updates; empty if nothing can be drawn.

    The last curve is on top. With `is_marked`, marks are drawn in place of dots.
    """
    columns, rows = width - AXIS - 1, height - 1
    visible = _visible_points(lines, share)
    if columns < 4 or rows < 2 or not visible:
        return []
    blank, wide, high = (ord(" "), 1, 1) if is_marked else (BLANK, 2, 4)  # dots of a character
    updates, values = zip(*(point for _, points in visible for point in points), strict=True)
    (first, last), (low, top) = _span(updates), _span(values)
    cells = [[("", blank)] * columns for _ in range(rows)]  # style and character
    for style, points in visible:
        dots = [
            (_place(at, first, last, columns * wide), _place(value, top, low, rows * high))
            for at, value in points
        ]
        for x, y in set(_connect(dots)):
            line, place = cells[y // high], x // wide
            code = line[place][1] | DOTS[x % wide][y % high]
            line[place] = ("", ord(style)) if is_marked else (style, code)
    labels = _axis_labels(rows - 1, low, top)
    end = f"{last:,.0f} updates"
    start = f"{first:,.0f}".ljust(columns - len(end))
    drawn = (_row(labels.get(number), line) for number, line in enumerate(cells))
    return [*drawn, Text(" " * AXIS + "└" + (start + end)[-columns:])]


def _row(label: str | None, cells: Sequence[tuple[str, int]]) -> Text:
    row = Text(" " * AXIS + "│" if label is None else f"{label:>{AXIS}}┤")
    for style, run in groupby(cells, itemgetter(0)):
        row.append("".join(chr(code) for _, code in run), style)
    return row


def _visible_points(lines: Iterable[Line], share: float) -> list[tuple[str, Points]]:
    """The finite points within the last `share` of all updates, by style."""
    finite = [
        (style, [point for point in zip(*line, strict=True) if abs(point[1]) < LARGEST])
        for style, *line in lines
    ]
    last = max((points[-1][0] for _, points in finite if points), default=0)
    recent = ((style, [point for point in points if point[0] >= last * (1 - share)])
              for style, points in finite)  # fmt: skip
    return [(style, points) for style, points in recent if points]


def _span(values: Sequence[float]) -> tuple[float, float]:
    """The lowest and the highest value, widened if they are equal."""
    low, high = min(values), max(values)
    margin = 0 if high > low else abs(low) / 10 or 1.0
    return low - margin, high + margin


def _place(value: float, start: float, end: float, number: int) -> int:
    """The index below `number` of a value from `start` to `end`."""
    return round((value - start) / (end - start) * (number - 1))


def _connect(dots: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The dots, and all dots on straight lines between neighbours."""
    for (x, y), (to_x, to_y) in pairwise([*dots, dots[-1]]):
        steps = max(abs(to_x - x), abs(to_y - y), 1)
        for step in range(steps):
            yield x + round(step * (to_x - x) / steps), y + round(step * (to_y - y) / steps)


def _axis_labels(last: int, low: float, high: float) -> dict[int, str]:
    """The values at the first, the middle and the last row, with enough digits to differ."""
    values = {number: high - (high - low) * number / last for number in (0, last // 2, last)}
    texts = [{number: layout(value) for number, value in values.items()} for layout in LAYOUTS]
    fitting = [labels for labels in texts if max(map(len, labels.values())) <= AXIS]
    differing = (labels for labels in fitting if len({*labels.values()}) == len(values))
    return next(differing, fitting[0])
