"""Plots the objective of a sweep over each option that was varied."""

import math
import statistics
from collections.abc import Collection, Mapping
from typing import Any

from andiron.plain import readable
from andiron.plain.plain_values import is_finite
from andiron.wings.comparison import figures, run_filter
from andiron.wings.comparison.seed_groups import APART

MOST_PANELS, COLUMNS = 12, 3
LONGEST = 24  # characters of a value on its axis
FACTOR = 10  # ratio of largest to smallest value from which an axis is logarithmic


def picture(
    options: Mapping[str, Mapping[str, str]],
    objectives: Mapping[str, float],
    metric: str,
    paused: Collection[str] = (),
) -> bytes | None:
    """A PNG with a panel for each option: a point for each job, the mean of each value.

    `options` has the values by job identity. Points of `paused` jobs, which have trained for less,
    are hollow. The mean is omitted if any job is paused, or if each value has one job. None if no
    option was varied.
    """
    panels = {
        name: measured
        for name, values in options.items()
        if (measured := {job: values[job] for job in objectives if job in values})
        and name not in APART
    }
    names = list(panels)[:MOST_PANELS]
    if not names:
        return None
    from matplotlib.figure import Figure  # half a second of imports

    rows, columns = math.ceil(len(names) / COLUMNS), min(len(names), COLUMNS)
    figure = Figure(figsize=(4 * columns, 3.2 * rows), layout="constrained")
    for number, name in enumerate(names, 1):
        axes = figure.add_subplot(rows, columns, number)
        _draw(axes, panels[name], objectives, paused)
        axes.set(xlabel=_label(name), ylabel=_label(metric))
    return figures.as_png(figure)


def _draw(
    axes: Any, values: Mapping[str, str], objectives: Mapping[str, float], paused: Collection[str]
) -> None:
    numbers = {job: run_filter.number_in(text) for job, text in values.items()}
    are_numbers = all(map(is_finite, numbers.values()))
    by_value: dict[Any, list[float]] = {}
    for job, text in values.items():
        key = numbers[job] if are_numbers else text
        by_value.setdefault(key, []).append(objectives[job])
        place = key if are_numbers else list(by_value).index(key)
        fill = "none" if job in paused else "C0"
        axes.plot(place, objectives[job], "o", color="C0", markerfacecolor=fill, alpha=0.4)
    places = by_value if are_numbers else range(len(by_value))
    if not paused and len(by_value) < len(values):
        means = sorted(zip(places, map(statistics.fmean, by_value.values()), strict=True))
        line = "-" if are_numbers else "_"
        axes.plot(*zip(*means, strict=True), line, color="C1", markersize=24, label="mean")
        axes.legend(fontsize="small", markerscale=0.5)
    if not are_numbers:
        axes.set_xticks(places, [*map(_label, by_value)], rotation=20)
        axes.set_xlim(-0.5, len(by_value) - 0.5)
    elif 0 < FACTOR * min(by_value) <= max(by_value):
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter("")


def _label(text: str) -> str:
    return figures.label(readable.shortened(text, LONGEST))
