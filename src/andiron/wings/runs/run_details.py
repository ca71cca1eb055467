"""Details of one run and differences of two, from files checked against the manifest."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from andiron.plain.plain_values import Named
from andiron.plain.plain_values import as_text
from andiron.plain.readable import number, printable, printable_line
from andiron.shell.config.leaves import by_name, differences, leaves
from andiron.shell.run import resume_policy
from andiron.wings.runs import run_list, text_table
from andiron.wings.runs.run_reader import RunReader

NAME = 30  # columns of a name
MOST_TEXT = 2000  # characters of a value
ORIGIN = (  # of the provenance
    "andiron", "git", "projects", "modules", "python", "packages", "hardware", "data",
)  # fmt: skip


def as_text_of(run: RunReader) -> str:
    """Status, metrics, parameter groups, provenance and configuration."""
    sections = {
        "metrics": _metric_table(run),
        "parameter groups": _group_table(run.records["param_groups"]),
        "provenance": _value_lines(dict(_provenance_values(run.records["provenance"]))),
        "configuration": _value_lines({**run.options, **_changed(run)}),
    }
    blocks = (f"{title}\n{text}" for title, text in sections.items() if text)
    return "\n\n".join([_status_lines(run), *blocks])


def differences_of(one: RunReader, other: RunReader) -> dict[str, dict[str, list[Any]]]:
    """The options, provenance and metrics that differ: both values by name, None if missing."""
    ours, theirs = _compared_values(one), _compared_values(other)
    return {kind: by_name(differences(ours[kind], theirs[kind])) for kind in ours}


def _compared_values(run: RunReader) -> dict[str, Named]:
    provenance, metrics = run.records["provenance"], run.metrics
    options = {".".join(path): value for path, value in leaves(run.records["config"])}
    return {
        "options": options | _changed(run),
        "provenance": {name: provenance.get(name) for name in ORIGIN},
        "metrics": {
            name: {"best": metric.best, "last": metric.last} for name, metric in metrics.items()
        },
    }


def _changed(run: RunReader) -> dict[str, str]:
    """The options that changed during the run, with the updates from which each value applied."""
    return resume_policy.texts(run.records["provenance"].get("resumes"))


def as_text_of_differences(
    one: RunReader, other: RunReader, differing: Mapping[str, Mapping[str, list[Any]]]
) -> str:
    """A table for each kind of difference."""
    parts = [printable(f"A: {one.path}\nB: {other.path}")]
    for kind, pairs in differing.items():
        rows = [[name, *sides] for name, sides in pairs.items()]
        parts.append(text_table.table([kind, "A", "B"], rows) or f"{kind}: no difference")
    return "\n\n".join(parts)


def _status_lines(run: RunReader) -> str:
    facts, spent = run.facts, run_list.seconds(run)
    counts = (
        f"{facts[name]:,} {name.removeprefix('num_')}"
        for name in ("epochs", "updates", "num_parameters")
        if name in facts
    )
    lines = [
        str(run.path),
        f"{facts['status']}, last started {run_list.local_time(facts.get('started'))}"
        + (f", for {spent}" if spent else ""),
        ", ".join(counts),
        facts.get("reason") or "",
    ]
    return "\n".join(printable(line) for line in lines if line)


def _metric_table(run: RunReader) -> str:
    rows = [
        [name, text_table.measured(metric.best), metric.epoch_of_best, number(metric.last)]
        for name, metric in run.metrics.items()
    ]
    return text_table.table(["metric", "best", "epoch of best", "last"], rows)


def _group_table(groups: Named) -> str:
    names = "optimizer", "lr", "num_tensors", "num_parameters"
    rows = [
        [name, *(group.get(value) for value in names)]
        for name, group in groups.items()
        if isinstance(group, dict)
    ]
    return text_table.table(["group", "optimizer", "lr", "tensors", "parameters"], rows)


def _provenance_values(provenance: Named) -> Iterator[tuple[str, Any]]:
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


def _value_lines(values: Named) -> str:
    """A line for each name and value."""
    texts = {name: printable_line(as_text(value)[:MOST_TEXT]) for name, value in values.items()}
    return "\n".join(f"{printable(name):{NAME}}  {text}".rstrip() for name, text in texts.items())
