"""A picture of how the objective of a sweep depends on each option that was varied."""

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from andiron.disk import png
from andiron.plain import plain_values, readable

LEFT_OUT = ("seed", "name")
MOST_PANELS, COLUMNS = 12, 3
LONGEST = 24  # characters of a value below its axis
FACTOR = 10  # between the largest and the smallest number of a logarithmic axis


def picture(
    options: Mapping[str, Mapping[str, Any]],
    objectives: Mapping[str, float],
    metric: str,
    paused: Collection[str] = (),
) -> bytes | None:
    """A PNG with a panel for each option: a point for each job, and the mean of each value.

    There is no mean where each value has one job, or where jobs are `paused`, whose points are
    hollow: they have trained for less. `options` has the values by the identity of the job. None if
    no option was varied.
    """
    shown = [
        name
        for name, values in options.items()
        if name not in LEFT_OUT and not values.keys().isdisjoint(objectives)
    ][:MOST_PANELS]
    if not shown:
        return None
    from matplotlib.figure import Figure  # imports for half a second, and only here

    rows, columns = math.ceil(len(shown) / COLUMNS), min(len(shown), COLUMNS)
    figure = Figure(figsize=(4 * columns, 3.2 * rows), layout="constrained")
    for place, name in enumerate(shown, 1):
        axes = figure.add_subplot(rows, columns, place)
        _draw(axes, options[name], objectives, paused)
        axes.set(xlabel=_plain(name), ylabel=_plain(metric))
    return png.of_figure(figure)


def _draw(
    axes: Any, values: Mapping[str, Any], objectives: Mapping[str, float], paused: Collection[str]
) -> None:
    by_value: dict[Any, list[str]] = {}
    for job, value in values.items():
        if job in objectives:
            key = value if plain_values.is_finite(value) else plain_values.as_text(value)
            by_value.setdefault(key, []).append(job)
    are_numbers = all(plain_values.is_finite(each) for each in by_value)
    keys: Sequence[Any] = sorted(by_value) if are_numbers else list(by_value)
    places = keys if are_numbers else range(len(keys))
    for place, key in zip(places, keys, strict=True):
        for job in by_value[key]:
            fill = "none" if job in paused else "C0"
            axes.plot(place, objectives[job], "o", color="C0", markerfacecolor=fill, alpha=0.4)
    if not paused and len(keys) < sum(map(len, by_value.values())):
        means = [statistics.fmean(objectives[job] for job in by_value[key]) for key in keys]
        line = "-" if are_numbers else "_"
        axes.plot(list(places), means, line, color="C1", markersize=24, label="mean")
        axes.legend(fontsize="small", markerscale=0.5)
    if are_numbers and min(keys) > 0 and max(keys) >= FACTOR * min(keys):
        from matplotlib.ticker import NullFormatter

        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
    elif not are_numbers:
        axes.set_xticks(list(places), [_plain(str(key)) for key in keys], rotation=20)
        axes.set_xlim(-0.5, len(keys) - 0.5)


def _plain(text: str) -> str:
    return png.label(readable.shortened(text, LONGEST))
