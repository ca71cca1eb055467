"""Curves of a logged metric for groups of runs, as text or as a picture."""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from andiron.plain import readable
from andiron.wings.runs.seed_groups import Row, label

MARKS = "123456789abcdefghijklmnopqrstuvwxyz"  # of the curves in a chart, in order
MOST, MOST_VALUE = len(MARKS), 1e300  # differences of such values are finite
COLUMNS, ROWS = 80, 16  # of a text chart


@dataclass(frozen=True)
class Curve:
    """A metric's mean, lowest and highest value over runs, by completed updates."""

    label: str
    updates: Sequence[int]
    means: Sequence[float]
    lowest: Sequence[float]
    highest: Sequence[float]


def curves(rows: Sequence[Row], metric: str) -> list[Curve]:
    """A curve for each group of runs that logged the metric.

    Raises: DataError for a run whose values cannot be read.
    """
    drawn = []
    for row in rows:
        values: dict[int, list[float]] = {}
        for run in row.runs:
            for update, value in run.validations(metric):
                finite = value if abs(value) < MOST_VALUE else math.nan
                values.setdefault(update, []).append(finite)
        if values:
            updates, columns = zip(*sorted(values.items()), strict=True)
            means = [sum(column) / len(column) for column in columns]
            lowest, highest = [*map(min, columns)], [*map(max, columns)]
            drawn.append(Curve(label(row), updates, means, lowest, highest))
    return drawn


def as_text(curves: Sequence[Curve], metric: str) -> str:
    """A chart of the first `MOST` curves, in 80 columns, with a mark each; the first is on top."""
    from andiron.wings.screen import chart  # it imports rich

    marked_curves = zip(MARKS, curves, strict=False)
    lines = [(mark, curve.updates, curve.means) for mark, curve in marked_curves]
    rows = chart.chart(reversed(lines), COLUMNS, ROWS, is_marked=True)
    if not rows:
        return f"{readable.printable(metric)}: no curve"
    return "\n".join([readable.printable(metric), *(row.plain.rstrip() for row in rows)])


def picture(curves: Sequence[Curve], metric: str) -> bytes:
    """The first `MOST` curves as a PNG; a band reaches from the lowest to the highest run."""
    from matplotlib.figure import Figure  # imports for half a second, and only here

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for curve in curves[:MOST]:
        (line,) = axes.plot(curve.updates, curve.means, label=literal(curve.label))
        axes.fill_between(
            curve.updates, curve.lowest, curve.highest, alpha=0.2, color=line.get_color()
        )
    axes.set(xlabel="updates", ylabel=literal(metric))
    axes.legend(fontsize="small")
    return as_png(figure)


def as_png(figure: Any, **options: object) -> bytes:
    """A PNG of a figure; `options` are passed to its `savefig`."""
    written = io.BytesIO()
    figure.savefig(written, dpi=120, format="png", **options)
    return written.getvalue()


def literal(text: str) -> str:
    """Text on one line that matplotlib does not read as a formula."""
    return readable.printable_line(text).replace("$", r"\$")
