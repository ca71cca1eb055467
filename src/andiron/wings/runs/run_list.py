"""Runs as rows of a text table, or as JSON objects."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from andiron.plain.improvement import LAST
from andiron.plain.plain_values import is_finite, moment
from andiron.plain.readable import duration, joined
from andiron.plain.states import State
from andiron.run_folder import RunFolder
from andiron.wings.runs import run_reader
from andiron.wings.runs.run_reader import RunReader
from andiron.wings.runs.run_values import Names, differing
from andiron.wings.runs.text_table import measured, table

DEFAULT_METRIC = "valid/loss"
UNFINISHED = (State.RUNNING, State.PAUSED)


def metric_of(
    runs: Sequence[RunReader],
    name: str | None = None,
    objectives: Mapping[Path, str | None] = MappingProxyType({}),
) -> str:
    """The full name of the metric `name`, or the one most runs follow.

    A run follows the objective of its sweep, in `objectives` by the sweep's folder, or else the
    metric of its checkpoints. Of several, a line on stderr names the chosen one.
    Raises: SelectionError if no run has measured `name`.
    """
    if name is not None:
        return Names(runs).metric(name)
    aims = ((run, objectives.get(run.path.parent) or run.followed) for run in runs)
    followed = Counter(aim for run, aim in aims if aim and aim.removesuffix(LAST) in run.metrics)
    metric, *others = [aim for aim, _ in followed.most_common()] or [DEFAULT_METRIC]
    if others:
        print(f"by {metric}; some runs follow {joined(others)}: --metric chooses", file=sys.stderr)
    return metric


def as_table(runs: Sequence[RunReader], metric: str, columns: Sequence[str] | None = None) -> str:
    """A row for each run: status, differing options and the metric; or the given columns.

    Raises: SelectionError for a column that no run has.
    """
    names, titles = Names(runs), {}
    if columns is None:
        best, last = metric.removesuffix(LAST), metric.removesuffix(LAST) + LAST
        problem = ["problem"] if any(run.problems for run in runs) else []
        fields = ["status", *differing(runs), "epochs", best, last, "started", "seconds", *problem]
        titles = {last: "last", "seconds": "time"}
    else:
        fields = [names.resolved(name) for name in columns]
    rows = [[run.path, *(_cell_value(run, name, names) for name in fields)] for run in runs]
    return table(["path", *(titles.get(name, name) for name in fields)], rows)


def plain(run: RunReader) -> dict[str, Any]:
    """Everything recorded about a run, as plain values."""
    metrics = {name: dict(vars(standing)) for name, standing in run.metrics.items()}
    return {
        "path": str(run.path),
        **run.facts,
        "options": dict(run.options),
        "metrics": metrics,
        "problems": list(run.problems),
    }


def local_time(recorded: object) -> str | None:
    """A recorded moment in local time; None if it is none."""
    start = moment(recorded)
    try:
        return None if start is None else start.astimezone().strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError):  # a year that this machine's clock does not have
        return None


def seconds(run: RunReader) -> str | None:
    """How long the run has trained; until now if it is running."""
    goes_on = run.facts.get("status") in UNFINISHED
    now = datetime.now(UTC)
    spent = run_reader.seconds(run.facts, now) if goes_on else run.facts.get("seconds")
    return None if spent is None else duration(spent)


def _cell_value(run: RunReader, name: str, names: Names) -> Any:
    value = run.value(name)
    if name.removesuffix(LAST) in names.metrics:
        return measured(value)
    if name == "started":
        return local_time(value)
    return seconds(run) if name == "seconds" else value


def objectives(
    folder: RunFolder, names: str | list[str] | None, directions: Mapping[str, str] | None = None
) -> float | list[float | None] | None:
    """The `value` of one name, or of each name in a list."""
    if isinstance(names, list):
        return [objective(folder, name, directions) for name in names]
    return objective(folder, names, directions)


def objective(
    folder: RunFolder, name: str | None, directions: Mapping[str, str] | None = None
) -> float | None:
    """The run's best value of a metric such as `valid/accuracy`; `valid/accuracy.last` is the last.

    Without a name, the metric that the run's checkpoints follow; None if they follow none.
    `directions` are for an unfinished run, which has not recorded its own.
    Raises: SelectionError if the run has not measured the metric.
    """
    (run,) = run_reader.read([folder], directions)
    metric = run.followed if name is None else metric_of([run], name)
    number = None if metric is None else run.value(metric)
    return float(number) if is_finite(number) else None
