"""The curves of a logged metric for groups of runs, as text or as a picture."""

import io
import math
from collections.abc import Sequence

from andiron.plain import readable
from andiron.wings.runs.seed_groups import Row

MARKS = "123456789abcdefghijklmnopqrstuvwxyz"  # of the curves in a chart, in order
MOST_VALUE = 1e300  # differences of such values are finite
COLUMNS, ROWS = 80, 16


def as_text(rows: Sequence[Row], metric: str) -> str:
    """A chart with a mark for each of the first groups, whose first is on top: its runs' mean.

    Raises: DataError for a run whose values cannot be read.
    """
    from andiron.wings.screen import chart  # it imports rich

    curves = [(mark, *_means(row, metric)) for mark, row in zip(MARKS, rows, strict=False)]
    drawn = chart.chart(reversed(curves), COLUMNS, ROWS, is_marked=True)
    if not drawn:
        return f"{readable.printable(metric)}: no curve"
    return "\n".join([readable.printable(metric), *(line.plain.rstrip() for line in drawn)])


def picture(rows: Sequence[Row], metric: str) -> bytes:
    """A PNG of the curves, each with the number of its group; raises as `as_text`."""
    from matplotlib.figure import Figure  # imports for half a second, and only here

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for row in rows:
        axes.plot(*_means(row, metric), label=f"group {row.place}")
    axes.set_xlabel("updates")
    axes.set_ylabel(readable.printable_line(metric), parse_math=False)
    axes.legend(fontsize="small")
    figure.savefig(written := io.BytesIO(), dpi=120, format="png")
    return written.getvalue()


def _means(row: Row, metric: str) -> tuple[Sequence[int], Sequence[float]]:
    """The updates after which runs of a group were validated, and the mean of their values."""
    values: dict[int, list[float]] = {}
    for run in row.runs:
        for update, value in run.validations(metric):
            finite = value if abs(value) < MOST_VALUE else math.nan
            values.setdefault(update, []).append(finite)
    updates = sorted(values)
    return updates, [sum(values[update]) / len(values[update]) for update in updates]
