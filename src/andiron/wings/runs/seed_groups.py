"""Groups of runs that differ only in the seed: mean and spread of each metric.

>>> spread([0.9, 0.8, 1.0]).mean, str(spread([0.5])), str(spread([0.9, 0.8, 1.0]))
(0.9, '0.5000', '0.9000 ± 0.1000')
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from andiron.plain import readable, wings
from andiron.plain.plain_values import Named, Plain
from andiron.plain.readable import number
from andiron.plain.states import State
from andiron.wings.runs.run_reader import RunReader
from andiron.wings.runs.run_values import Names, comparable, differing
from andiron.wings.runs.text_table import table

APART = ("seed", "name")  # options in which runs of one group may differ
OF_FOLDS = (*APART, "data.fold")  # in a table of means
ENDED = (State.DONE, State.DIVERGED)
MOST = 1e150  # values whose squares are finite


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation (divided by n - 1; None for a single value)."""

    mean: float
    deviation: float | None
    number: int

    def __str__(self) -> str:
        mean = number(self.mean)
        return mean if self.deviation is None else f"{mean} ± {number(self.deviation)}"


def spread(values: Sequence[float]) -> Spread | None:
    """Mean and standard deviation; None for no values."""
    if not values:
        return None
    if len(values) == 1:
        return Spread(values[0], None, 1)
    if not all(abs(value) < MOST for value in values):  # NaN too
        return Spread(math.nan, None, len(values))
    return Spread(statistics.fmean(values), statistics.stdev(values), len(values))


def by_seed(runs: Iterable[RunReader], apart: Sequence[str] = APART) -> list[list[RunReader]]:
    """The runs in groups whose configurations are equal `apart` from these options."""
    groups: dict[frozenset[Any], list[RunReader]] = {}
    for run in runs:
        groups.setdefault(configuration(run, apart), []).append(run)
    return list(groups.values())


def configuration(run: RunReader, apart: Sequence[str] = APART) -> frozenset[Any]:
    """The options in which the runs of one group are equal, in hashable form."""
    return frozenset(
        (name, comparable(value))
        for name, value in run.options.items()
        if name not in apart and value is not None
    )


@dataclass(frozen=True)
class Row:
    """A table row of a group: place, options that differ between groups, metrics' spreads."""

    place: int
    runs: Sequence[RunReader]
    options: Named
    metrics: Mapping[str, Spread | None]


def compared(
    runs: Sequence[RunReader], metric: str, direction: str | None, beside: Sequence[RunReader] = ()
) -> list[Row]:
    """A row for each group of runs that differ only in seed and fold, best `metric` first.

    A row has the options that differ among the groups and the runs `beside` them, and the metrics
    on held-out data, without parts of a metric such as valid/recall/cat.
    """
    sign = {"highest": -1, "lowest": 1}.get(direction or "", 0)  # 0 sorts nothing

    def rank(group: Sequence[RunReader]) -> tuple[bool, float]:
        metric_spread = spread(_values(group, metric))
        mean = metric_spread.mean if metric_spread else math.nan
        return math.isnan(mean), sign * mean

    return as_rows(sorted(by_seed(runs, OF_FOLDS), key=rank), metric, beside, OF_FOLDS)


def as_rows(
    groups: Sequence[Sequence[RunReader]],
    metric: str,
    beside: Sequence[RunReader] = (),
    apart: Sequence[str] = APART,
) -> list[Row]:
    """A row for each group, in this order, as in `compared`, without the options `apart`."""
    runs = [run for group in groups for run in group]
    held_out = (name for name in Names(runs).metrics if not name.startswith("train/"))
    metrics = dict.fromkeys([metric, *(name for name in held_out if name.count("/") == 1)])
    options = differing([*(group[0] for group in groups), *beside])
    return [
        Row(
            place,
            group,
            {name: group[0].value(name) for name in options if name not in apart},
            {name: spread(_values(group, name)) for name in metrics},
        )
        for place, group in enumerate(groups, 1)
    ]


def unlike(name: str, facts: Sequence[object]) -> list[str]:
    """A line if the facts of runs are not all equal; `name` says what they are."""
    if all(fact == facts[0] for fact in facts):
        return []
    return [f"the runs have different {name}: it may be what a difference shows"]


def doubt(rows: Sequence[Row], metric: str) -> str | None:
    """Lines if the code differs, or if other groups have values as good as the first has."""
    lines = unlike("code", [code_of(run.provenance) for row in rows for run in row.runs])
    first, *others = ([*_values(row.runs, metric)] or [math.nan] for row in rows)
    beside = [
        place
        for place, values in enumerate(others, 2)
        if min(values) <= max(first) and min(first) <= max(values)
    ]
    if max(map(len, [first, *others])) == 1 < len(rows):
        more = wings.command("seeds RUN --add 2")
        lines.append(f"one seed a group does not show which is best: `{more}` trains more")
    elif beside:
        why = f"group {readable.joined(beside)} has values as good as the first has"
        if len(by_seed(rows[0].runs)) == 1:  # not of folds, which share training samples
            why += f"; `{wings.command('differ')}` tests differences"
        lines.append(f"the best is within the noise: {why}")
    return "\n".join(lines) or None


def as_table(rows: Sequence[Row], most_folders: int | None = None) -> str:
    """A line for each group, then the folders of the runs, at most `most_folders`."""
    headers = ["group", "runs", *rows[0].options, *rows[0].metrics]
    cells = [
        [
            row.place,
            len(row.runs),
            *row.options.values(),
            *(spread and str(spread) for spread in row.metrics.values()),
        ]
        for row in rows
    ]
    folders = [[row.place, run.path] for row in rows for run in row.runs]
    return f"{table(headers, cells)}\n\n{table(['group', 'folder'], folders[:most_folders])}"


def plain(rows: Sequence[Row]) -> list[Plain]:
    """The rows as plain values."""
    return [
        {
            "options": dict(row.options),
            "runs": [str(run.path) for run in row.runs],
            "seeds": [run.options.get("seed") for run in row.runs],
            "metrics": {name: spread and asdict(spread) for name, spread in row.metrics.items()},
        }
        for row in rows
    ]


def _values(runs: Iterable[RunReader], name: str) -> list[float]:
    values = (run.result(name) for run in runs)
    return [value for value in values if value is not None]


def code_of(origin: Named) -> Any:
    """The commits, uncommitted changes and other modules with which a run was trained."""
    projects = origin.get("projects")
    repositories = [origin.get("git"), *(projects.values() if isinstance(projects, dict) else ())]
    return origin.get("modules"), [
        (repository.get("revision"), repository.get("uncommitted"))
        for repository in repositories
        if isinstance(repository, dict)
    ]
