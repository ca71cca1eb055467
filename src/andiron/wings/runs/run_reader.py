"""A run's options, status and metrics, read from its folder without checking the manifest.

The folder is untrusted: damaged, missing or oversized files become `problems`, never errors.
"""

import dataclasses
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.disk import files
from andiron.plain import improvement
from andiron.plain.plain_values import Number, is_finite, is_number, or_nan
from andiron.plain.states import State
from andiron.run_folder import RunFolder
from andiron.shell.config.leaves import leaves
from andiron.shell.config.schema import FROM_PYTHON
from andiron.shell.run.applied_changes import values_by_update
from andiron.shell.run.log_file import is_abandoned
from andiron.shell.run.status import seconds
from andiron.wings.runs import logged_lines
from andiron.wings.runs.logged_lines import Line

MOST_BYTES = 2**20  # of config.json, status.json and summary.json: a hundred times the usual
MOST_LOGGED_BYTES = 32 * 2**20  # of metrics.jsonl: 100,000 log points
MOST_METRICS = 10_000
MOST_OPTIONS = 20_000  # values in config.json; memory for a thousand runs is bounded with it
MOST_DEPTH = 50  # of lists and objects in a file
TEXTS = ("status", "reason", "started", "ended")
NUMBERS = ("epochs", "updates", "seconds", "num_parameters")


@dataclass(frozen=True)
class Standing:
    """The best and last value of a metric on a split; no best where its direction is unknown."""

    last: Number
    last_epoch: int | None
    best: Number | None
    epoch_of_best: int | None


@dataclass(frozen=True)
class Run:
    """A run as recorded in its folder; `metrics` by split and name, as `valid/accuracy`."""

    folder: RunFolder
    facts: Mapping[str, Any]  # status, reason, started, ended, and NUMBERS, as far as known
    options: Mapping[str, Any] = field(default_factory=dict)  # flat; a node's name has its class
    nodes: frozenset[str] = frozenset()  # the names of options that are a node's class
    metrics: Mapping[str, Standing] = field(default_factory=dict)
    directions: Mapping[str, str] = field(default_factory=dict)  # lowest or highest, by metric
    problems: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The run's folder, as given or found."""
        return self.folder.path

    @property
    def followed(self) -> str | None:
        """The metric that the run's checkpoints follow, as `valid/loss`."""
        split, metric = (self.options.get(f"checkpoint.{name}") for name in ("split", "metric"))
        return f"{split}/{metric}" if isinstance(metric, str) else None


def read(folders: Iterable[RunFolder], given: Mapping[str, str] | None = None) -> list[Run]:
    """The runs in these folders; an unreadable run is listed as damaged.

    `given` directions of metrics override recorded ones.
    """
    runs = [_read(folder) for folder in folders]
    best_directions = directions(runs) | dict(given or {})
    return [run if run.metrics else _with_logged_metrics(run, best_directions) for run in runs]


def epoch_lines(folder: RunFolder) -> Iterator[Line]:
    """The values logged for whole epochs and validations, in order; none without a file.

    Raises: DataError for a file that is damaged, too large, a link, or not a regular file.
    """
    if folder.metrics.is_symlink():
        raise errors.DataError(f"{folder.metrics}: is a link")
    over_epochs = b'"over": "epoch"'
    lines = logged_lines.read(folder.metrics, MOST_LOGGED_BYTES, over_epochs)
    return (line for line in lines if line.over == "epoch")


def validations(folder: RunFolder, name: str) -> Iterator[tuple[int, float]]:
    """Completed updates and value of a metric such as `valid/accuracy`, at each validation.

    Raises: as `epoch_lines`.
    """
    split, metric = improvement.split_and_metric(name)
    for line in epoch_lines(folder):
        if line.split == split and metric in line.values:
            yield line.updates, float(line.values[metric])


def directions(runs: Iterable[Run]) -> dict[str, str]:
    """The best direction of each metric, as most runs recorded it; the loss defaults to lowest."""
    votes = Counter(vote for run in runs for vote in run.directions.items())
    recorded = dict(vote for vote, _ in reversed(votes.most_common()))  # the last of a name stays
    return {"loss": "lowest"} | recorded


def changes(folder: RunFolder) -> dict[str, Any]:
    """The options changed by resumes of the run, with their newest values."""
    resumes = read_object(folder.provenance, []).get("resumes")
    return {name: each[-1][1] for name, each in values_by_update(resumes).items()}


def origin_of(run: Run) -> dict[str, Any]:
    """The provenance of a run; empty if it cannot be read."""
    return read_object(run.folder.provenance, [])


def code_of(origin: Mapping[str, Any]) -> Any:
    """The commits, uncommitted changes and other modules with which a run was trained."""
    projects = origin.get("projects")
    repositories = [origin.get("git"), *(projects.values() if isinstance(projects, dict) else ())]
    return origin.get("modules"), [
        (each.get("revision"), each.get("uncommitted"))
        for each in repositories
        if isinstance(each, dict)
    ]


def read_object(
    path: Path, problems: list[str], most_values: int = files.VALUES_LIMIT
) -> dict[str, Any]:
    """The JSON object in a file; empty, and a line in `problems`, if it cannot be read."""
    try:
        if path.is_symlink():
            raise ValueError("is a link")
        value = files.parsed_json(files.read_bytes(path, MOST_BYTES), most_values)
        if not isinstance(value, dict):
            raise ValueError("is not a JSON object")
        _check_depth(value)
        return value
    except FileNotFoundError:
        problems.append(f"{path.name}: is missing")
    except (OSError, ValueError) as error:
        problems.append(f"{path.name}: {files.reason(error)}")
    return {}


def _read(folder: RunFolder) -> Run:
    problems: list[str] = []
    config = read_object(folder.config, problems, MOST_OPTIONS)
    status = read_object(folder.status, problems)
    facts: dict[str, Any] = {
        name: status[name] for name in TEXTS if isinstance(status.get(name), str)
    }
    if "status" not in facts:
        problems.append(f"{folder.status.name}: has no status")
    is_done = facts.get("status") == State.DONE
    summary = read_object(folder.summary, problems) if is_done else {}
    facts |= {name: summary[name] for name in NUMBERS if is_finite(summary.get(name))}
    facts.setdefault("seconds", seconds(facts))
    flat, nodes = _flat_options(config)
    metrics = dict(_standings(summary.get("metrics"), problems)) if summary else {}
    # the direction of the metric that checkpoints follow, if the configuration gives it
    followed = {str(flat.get("checkpoint.metric")): flat.get("checkpoint.direction")}
    recorded = summary.get("directions") or followed
    known_directions = {
        name: direction
        for name, direction in (recorded.items() if isinstance(recorded, dict) else ())
        if direction in improvement.DIRECTIONS
    }
    if "status" not in facts or (is_done and problems):
        facts["status"] = State.DAMAGED
    elif facts["status"] == State.FAILED and status.get(State.DIVERGED):
        facts["status"] = State.DIVERGED
    elif facts["status"] == State.RUNNING and is_abandoned(folder.log):
        facts["status"] = State.KILLED
    return Run(folder, facts, flat, nodes, metrics, known_directions, tuple(problems))


def _flat_options(config: Mapping[str, Any]) -> tuple[dict[str, Any], frozenset[str]]:
    """Every option by its dotted name, and the names of nodes, whose values are class names.

    A schedule's copy of `lr`, which the user did not set, and `render`, which does not affect
    training, are left out.
    """
    flat: dict[str, Any] = {}
    nodes = set()
    for path, value in leaves(config):
        if path[0] == FROM_PYTHON:  # the classes of components that cannot be made again
            if path[1:2] == ("not_recorded",) and path[-1] == "class":
                flat[".".join(path[2:-1])] = str(value).rpartition(".")[2]
            continue
        if path[0] == "render":
            continue
        if path[-1] == "_target_" and len(path) > 1:
            name = ".".join(path[:-1])
            nodes.add(name)
            flat[name] = str(value).rpartition(".")[2]
        elif not (len(path) == 2 and path[0] == "scheduler" and value == config.get("lr")):
            flat[".".join(path)] = value
    return flat, frozenset(nodes)


def _check_depth(value: Any, most: int = MOST_DEPTH) -> None:
    """Raises: ValueError if the value is nested deeper than `most`."""
    if not most:
        raise ValueError("is nested too deeply")
    inner = value.values() if isinstance(value, dict) else value
    for item in inner if isinstance(value, list | dict) else ():
        _check_depth(item, most - 1)


def _standings(rows: Any, problems: list[str]) -> Iterator[tuple[str, Standing]]:
    for row in rows if isinstance(rows, list) else [None]:
        match row:
            case {
                "split": str(split), "metric": str(metric), "last": last, "best": best,
                "last_epoch": int(epoch), "epoch_of_best": int(epoch_of_best),
            } if is_number(last := or_nan(last)) and is_number(best := or_nan(best)):  # fmt: skip
                yield f"{split}/{metric}", Standing(last, epoch, best, epoch_of_best)
            case _:
                problems.append("summary.json: a metric is malformed")
                return


def _with_logged_metrics(run: Run, best_directions: Mapping[str, str]) -> Run:
    """The run with metrics from its log, for a run without a summary."""
    folder = run.folder
    standings: dict[str, Standing] = {}
    epochs = updates = 0
    try:
        for line in epoch_lines(folder):
            epochs, updates = max(epochs, line.epoch), max(updates, line.updates)
            for metric, value in line.values.items():
                direction = improvement.direction_of(metric, best_directions)
                name = f"{line.split}/{metric}"
                standings[name] = _with_value(standings.get(name), value, line.epoch, direction)
            if len(standings) > MOST_METRICS:
                raise errors.DataError(f"{folder.metrics}: more than {MOST_METRICS:,} metrics")
    except errors.DataError as error:
        problems = (*run.problems, str(error).removeprefix(f"{folder.path}{os.sep}"))
        return dataclasses.replace(run, problems=problems, metrics=standings)
    facts = {"epochs": epochs, "updates": updates} | dict(run.facts)
    return dataclasses.replace(run, facts=facts, metrics=standings)


def _with_value(
    before: Standing | None, value: Number, epoch: int, direction: str | None
) -> Standing:
    if direction is None:
        return Standing(value, epoch, None, None)
    best = before.best if before and is_finite(before.best) else None
    if before is None or improvement.is_better(value, best, direction):
        return Standing(value, epoch, value, epoch)
    return Standing(value, epoch, before.best, before.epoch_of_best)
