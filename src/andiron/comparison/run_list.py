"""Runs as rows: a line each on the terminal, an object each as JSON."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from andiron.comparison.recorded_run import Run
from andiron.comparison.run_values import Names, differing, value_of
from andiron.comparison.text_table import cell, measured, table
from andiron.plain.improvement import LAST
from andiron.plain.plain_values import moment
from andiron.plain.readable import duration
from andiron.run import status

DEFAULT_METRIC = "valid/loss"


def metric_of(runs: Iterable[Run], name: str | None = None) -> str:
    """The whole name of the metric to show: the one given, or what most checkpoints follow.

    Raises: SelectionError if no run has measured the one given.
    """
    every = list(runs)
    if name is not None:
        return Names(every).metric(name)
    followed = Counter(run.followed for run in every if run.followed in run.metrics)
    return str(followed.most_common(1)[0][0]) if followed else DEFAULT_METRIC


def as_table(runs: Sequence[Run], metric: str, columns: Sequence[str] | None = None) -> str:
    """A row for each run: how it ended, what differs, its metric; or the columns of these names.

    Raises: SelectionError for a column that no run has.
    """
    names, titles = Names(runs), {}
    if columns is None:
        best, last = metric.removesuffix(LAST), metric.removesuffix(LAST) + LAST
        problem = ["problem"] if any(run.problems for run in runs) else []
        shown = ["status", *differing(runs), "epochs", best, last, "started", "seconds", *problem]
        titles = {last: "last", "seconds": "time"}
    else:
        shown = [names.resolved(name) for name in columns]
    rows = [[run.path, *(_shown(run, name, names) for name in shown)] for run in runs]
    return table(["path", *(titles.get(name, name) for name in shown)], rows)


def as_json(runs: Iterable[Run]) -> str:
    """An array with an object for each run, each on a line of its own; NaN and infinity are null.
    """
    rows = [strict_json(plain(run)) for run in runs]
    return "[\n" + ",\n".join(rows) + "\n]" if rows else "[]"


def plain(run: Run) -> dict[str, Any]:
    """Everything known about a run, as plain values."""
    metrics = {name: dict(vars(standing)) for name, standing in run.metrics.items()}
    return {
        "path": str(run.path),
        **run.facts,
        "options": dict(run.options),
        "metrics": metrics,
        "problems": list(run.problems),
    }


def named(run: Run) -> str:
    """The run's folder, on one line of a terminal."""
    return cell(run.path)


def started(run: Run) -> str | None:
    """When the run began, in local time."""
    found = moment(run.facts.get("started"))
    try:
        return None if found is None else found.astimezone().strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError):  # a year that this machine's clock does not have
        return None


def seconds(run: Run) -> str | None:
    """How long the run has trained; until now for one that runs."""
    is_running = run.facts.get("status") == "running"
    spent = status.seconds(run.facts, datetime.now(UTC)) if is_running else run.facts.get("seconds")
    return None if spent is None else duration(spent)


def strict_json(value: Any, indent: int | None = None) -> str:
    """A plain value as JSON; NaN and infinity, which JSON does not have, are null."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False)
    except ValueError:
        finite = json.loads(json.dumps(value), parse_constant=lambda name: None)
        return json.dumps(finite, indent=indent)


def _shown(run: Run, name: str, names: Names) -> Any:
    value = value_of(run, name)
    if name.removesuffix(LAST) in names.metrics:
        return measured(value)
    return started(run) if name == "started" else seconds(run) if name == "seconds" else value
