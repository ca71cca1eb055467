"""Details of one run and differences of two, from files checked against the manifest."""

import dataclasses
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.plain.plain_values import as_text, is_finite
from andiron.plain.readable import duration, number, printable, printable_line
from andiron.plain.states import State
from andiron.run_folder import RunFolder
from andiron.shell.config.leaves import by_name, differences, leaves
from andiron.shell.run import applied_changes, run_record, status
from andiron.wings.runs import run_list, text_table
from andiron.wings.runs.run_reader import Run, read

WIDTH, NAME = 80, 30  # columns of a line, and of a name in it
MOST_TEXT = 2000  # characters of a value
ORIGIN = (  # of the provenance
    "andiron", "git", "projects", "modules", "python", "packages", "hardware", "data",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Details:
    """A run and its recorded files as plain values, by name; empty for a missing file."""

    run: Run
    records: Mapping[str, Mapping[str, Any]]  # config, provenance and param_groups


def details(folder: RunFolder) -> Details:
    """The run in a folder; its files must be unchanged.

    Raises: DataError for a changed, damaged or missing file.
    """
    paths = folder.config, folder.provenance, folder.param_groups
    records = {path.stem: _read_object(folder, path) for path in paths}
    if os.path.lexists(folder.summary):
        run_record.check(folder, folder.summary)
    (run,) = read([folder])
    if run.problems:
        raise errors.DataError("; ".join(f"{folder.path}: {problem}" for problem in run.problems))
    return Details(run, records)


def as_text_of(details: Details) -> str:
    """Status, metrics, parameter groups, provenance and configuration, in 80 columns."""
    run = details.run
    sections = {
        "metrics": _metric_table(run),
        "parameter groups": _group_table(details.records["param_groups"]),
        "provenance": _value_lines(_provenance_values(details.records["provenance"])),
        "configuration": _value_lines({**run.options, **_changed(details)}),
    }
    blocks = (f"{title}\n{text}" for title, text in sections.items() if text)
    return "\n\n".join([_status_lines(run), *blocks])


def plain(details: Details) -> dict[str, Any]:
    """The run and its records as plain values."""
    return {**run_list.plain(details.run), **details.records}


def differences_of(one: Details, other: Details) -> dict[str, dict[str, list[Any]]]:
    """The options, provenance and metrics that differ: both values by name, None if missing."""
    ours, theirs = _compared_values(one), _compared_values(other)
    return {kind: by_name(differences(ours[kind], theirs[kind])) for kind in ours}


def _compared_values(details: Details) -> dict[str, Mapping[str, Any]]:
    provenance, metrics = details.records["provenance"], details.run.metrics
    options = {".".join(path): value for path, value in leaves(details.records["config"])}
    return {
        "options": options | _changed(details),
        "provenance": {name: provenance.get(name) for name in ORIGIN},
        "metrics": {
            name: {"best": metric.best, "last": metric.last} for name, metric in metrics.items()
        },
    }


def _changed(details: Details) -> dict[str, str]:
    """The options that changed during the run, with the updates from which each value applied."""
    return applied_changes.texts(details.records["provenance"].get("resumes"))


def as_text_of_differences(
    one: Details, other: Details, differing: Mapping[str, Mapping[str, list[Any]]]
) -> str:
    """A table for each kind of difference."""
    parts = [printable(f"A: {one.run.path}\nB: {other.run.path}")]
    for kind, pairs in differing.items():
        rows = [[name, *sides] for name, sides in pairs.items()]
        parts.append(text_table.table([kind, "A", "B"], rows) or f"{kind}: no difference")
    return "\n\n".join(parts)


def _read_object(folder: RunFolder, path: Path) -> dict[str, Any]:
    if not os.path.lexists(path):
        return {}
    value = run_record.read_json(folder, path)
    if not isinstance(value, dict):
        raise errors.DataError(f"{path}: is not a JSON object; restore it from a copy")
    return value


def _status_lines(run: Run) -> str:
    facts = run.facts
    counts = (
        f"{facts[name]:,} {name.removeprefix('num_')}"
        for name in ("epochs", "updates", "num_parameters")
        if name in facts
    )
    lines = [
        str(run.path),
        f"{facts['status']}, {_times(run)}",
        ", ".join(counts),
        facts.get("reason") or "",
    ]
    return "\n".join(printable(line) for line in lines if line)


def _times(run: Run) -> str:
    """When the run was started, first and last, and the time of all its sessions."""
    recorded = status.read(run.folder)
    first, earlier = recorded.get(status.FIRST_STARTED), recorded.get(status.EARLIER_SECONDS)
    if not (isinstance(first, str) and is_finite(earlier)):
        spent = run_list.seconds(run)
        return f"started {run_list.started(run)}" + (f", took {spent}" if spent else "")
    is_running = run.facts["status"] == State.RUNNING
    last = status.seconds(recorded, datetime.now(UTC) if is_running else None)
    began = run_list.started(dataclasses.replace(run, facts={"started": first}))
    took = f"took {duration(earlier + (last or 0.0))} in all sessions"
    return f"started {began}, {took}\nlast resumed {run_list.started(run)}"


def _metric_table(run: Run) -> str:
    rows = [
        [name, text_table.measured(metric.best), metric.epoch_of_best, number(metric.last)]
        for name, metric in run.metrics.items()
    ]
    return text_table.table(["metric", "best", "epoch of best", "last"], rows)


def _group_table(groups: Mapping[str, Any]) -> str:
    names = "optimizer", "lr", "num_tensors", "num_parameters"
    rows = [
        [name, *(group.get(value) for value in names)]
        for name, group in groups.items()
        if isinstance(group, dict)
    ]
    return text_table.table(["group", "optimizer", "lr", "tensors", "parameters"], rows)


def _provenance_values(provenance: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    command = provenance.get("command")
    if isinstance(command, list):
        yield "command", shlex.join(map(str, command))
    packages = provenance.get("packages")
    versions = packages.items() if isinstance(packages, Mapping) else ()
    values = {name: provenance.get(name) for name in ORIGIN if name != "packages"}
    for path, value in leaves(values):
        yield ".".join(path), value
    yield "packages", ", ".join(f"{name} {version}" for name, version in versions)
    resumes = provenance.get("resumes")
    if isinstance(resumes, list):
        yield "resumes", len(resumes)


def _value_lines(values: Any) -> str:
    """A line for each name and value; a long value is wrapped within its column."""
    lines, indent = [], "\n" + " " * (NAME + 2)
    for name, value in dict(values).items():
        text = printable_line(as_text(value)[:MOST_TEXT])
        pieces = re.findall(f".{{1,{WIDTH - NAME - 2}}}", text)
        name = printable(name)
        head = f"{name:{NAME}}  " if len(name) <= NAME else name + indent
        lines.append((head + indent.join(pieces)).rstrip())
    return "\n".join(lines)
