"""One run in full, and two runs side by side; recorded files are checked against the manifest.
"""

import dataclasses
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.comparison import run_list, text_table
from andiron.comparison.recorded_run import Run, read
from andiron.config.leaves import by_name, differences, leaves
from andiron.plain.plain_values import as_text
from andiron.plain.readable import number
from andiron.run import run_record
from andiron.run_folder import RunFolder

WIDTH, NAME = 80, 30  # columns of a line, and of a name in it
MOST_TEXT = 2000  # characters of a value
ORIGIN = (  # of the provenance
    "andiron", "git", "projects", "modules", "python", "packages", "hardware", "data",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Details:
    """A run, and its recorded files as plain values by their names; empty for a missing file."""

    run: Run
    records: Mapping[str, Mapping[str, Any]]  # config, provenance and param_groups


def details(folder: RunFolder) -> Details:
    """The run in a folder, its files unchanged since it wrote them.

    Raises: DataError for a file that was changed, or is damaged or missing.
    """
    paths = folder.config, folder.provenance, folder.param_groups
    there = [path for path in (*paths, folder.summary) if os.path.lexists(path)]
    run_record.check(folder, *there)
    (run,) = read([folder])
    if run.problems:
        raise errors.DataError("; ".join(f"{folder.path}: {problem}" for problem in run.problems))
    records = {path.stem: _object(folder, path) if path in there else {} for path in paths}
    return Details(run, records)


def as_text_of(found: Details) -> str:
    """Status, metrics, parameter groups, provenance and configuration, in 80 columns."""
    run = found.run
    sections = {
        "metrics": _metrics(run),
        "parameter groups": _groups(found.records["param_groups"]),
        "provenance": _listed(_origin(found.records["provenance"])),
        "configuration": _listed(run.options),
    }
    shown = (f"{title}\n{text}" for title, text in sections.items() if text)
    return "\n\n".join([_status(run), *shown])


def plain(found: Details) -> dict[str, Any]:
    """Everything in `found` as plain values."""
    return {**run_list.plain(found.run), **found.records}


def differences_of(one: Details, other: Details) -> dict[str, dict[str, list[Any]]]:
    """The options, provenance and metrics that differ: both values by name, None for none."""
    ours, theirs = _compared(one), _compared(other)
    return {kind: by_name(differences(ours[kind], theirs[kind])) for kind in ours}


def _compared(found: Details) -> dict[str, Mapping[str, Any]]:
    provenance, metrics = found.records["provenance"], found.run.metrics
    return {
        "options": found.records["config"],
        "provenance": {name: provenance.get(name) for name in ORIGIN},
        "metrics": {name: {"best": of.best, "last": of.last} for name, of in metrics.items()},
    }


def as_text_of_differences(
    one: Details, other: Details, found: Mapping[str, Mapping[str, list[Any]]]
) -> str:
    """A table for each kind of difference."""
    parts = [errors.printable(f"A: {one.run.path}\nB: {other.run.path}")]
    for kind, named in found.items():
        rows = [[name, *sides] for name, sides in named.items()]
        parts.append(text_table.table([kind, "A", "B"], rows) or f"{kind}: no difference")
    return "\n\n".join(parts)


def _object(folder: RunFolder, path: Path) -> dict[str, Any]:
    value = run_record.read_json(folder, path)
    if not isinstance(value, dict):
        raise errors.DataError(f"{path}: is not a JSON object; restore it from a copy")
    return value


def _status(run: Run) -> str:
    facts = run.facts
    counts = (
        f"{facts[name]:,} {name.removeprefix('num_')}"
        for name in ("epochs", "updates", "num_parameters")
        if name in facts
    )
    lines = [
        str(run.path),
        f"{facts['status']}, started {run_list.started(run)}, took {run_list.seconds(run)}",
        ", ".join(counts),
        facts.get("reason") or "",
    ]
    return "\n".join(errors.printable(line) for line in lines if line)


def _metrics(run: Run) -> str:
    rows = [
        [name, text_table.measured(of.best), of.epoch_of_best, number(of.last)]
        for name, of in run.metrics.items()
    ]
    return text_table.table(["metric", "best", "epoch of best", "last"], rows)


def _groups(groups: Mapping[str, Any]) -> str:
    names = "optimizer", "lr", "num_tensors", "num_parameters"
    rows = [
        [name, *(group.get(value) for value in names)]
        for name, group in groups.items()
        if isinstance(group, dict)
    ]
    return text_table.table(["group", "optimizer", "lr", "tensors", "parameters"], rows)


def _origin(provenance: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    command = provenance.get("command")
    if isinstance(command, list):
        yield "command", shlex.join(map(str, command))
    packages = provenance.get("packages")
    listed = packages.items() if isinstance(packages, Mapping) else ()
    shown = {name: provenance.get(name) for name in ORIGIN if name != "packages"}
    for path, value in leaves(shown):
        yield ".".join(path), value
    yield "packages", ", ".join(f"{name} {version}" for name, version in listed)
    resumes = provenance.get("resumes")
    if isinstance(resumes, list):
        yield "resumes", len(resumes)


def _listed(values: Any) -> str:
    """A line for each name and value, the value continued below itself where it is long."""
    lines, indent = [], "\n" + " " * (NAME + 2)
    for name, value in dict(values).items():
        text = errors.printable_line(as_text(value)[:MOST_TEXT])
        pieces = re.findall(f".{{1,{WIDTH - NAME - 2}}}", text)
        name = errors.printable(name)
        head = f"{name:{NAME}}  " if len(name) <= NAME else name + indent
        lines.append((head + indent.join(pieces)).rstrip())
    return "\n".join(lines)
