"""List, show, compare and remove runs in any folders."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.plain import improvement, readable
from andiron.plain.plain_values import is_finite
from andiron.plain.states import State
from andiron.run_folder import RunFolder, is_sweep
from andiron.shell.cli import answers
from andiron.shell.run import lab_options, named_folder
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import (
    ANY, COUNT, FLAG, GROUPS, STATUS, SWEEP, TEXT, Schema, by_name, closed, list_of, or_null,
)  # fmt: skip
from andiron.wings.commands.declaration import Command
from andiron.wings.runs import (
    epoch_curves, run_details, run_list, run_reader, run_values, seed_groups, text_table,
)  # fmt: skip
from andiron.wings.runs.run_reader import RunReader
from andiron.wings.sweep import ledger, sweep_results
from andiron.wings.trained import named_output

LATEST = Path(named_folder.LATEST)
DEFAULT_FOLDERS = named_folder.OF_TRAINING
EXIT_USAGE = 2
Options = argparse.Namespace


def list_runs(options: Options) -> None:
    """Prints a row for each run."""
    runs = _filtered_runs(options)
    metric = options.metric or (options.sort if "/" in (options.sort or "") else None)
    if options.sort and runs:
        name = run_values.Names(runs).resolved(options.sort)
        runs = run_values.best_first(runs, name, options.direction)
    if options.reverse:
        runs.reverse()
    if answers.give({"runs": [*map(run_list.plain, runs)]}):
        return
    if runs:
        columns = options.columns.split(",") if options.columns else None
        print(run_list.as_table(runs, metric_of(runs, metric), columns))
    else:
        print(f"no runs{_failures(options.folders)}", file=sys.stderr)


def _failures(folders: Sequence[Path]) -> str:
    """The jobs of the sweeps among these folders that have failed, for the end of a message."""
    failed = [
        job
        for folder in filter(is_sweep, folders)
        for job in ledger.read(folder).jobs.values()
        if job.status == State.FAILED
    ]
    if not failed:
        return ""
    reason = readable.printable_line(failed[0].reason or "its output says why")
    return f"; {len(failed)} jobs have failed, such as job {failed[0].number}: {reason}"


def show(options: Options) -> None:
    """Prints one run in full."""
    run = RunReader(_run_folder(options.run))
    if not answers.give({**run_list.plain(run), **run.records}):
        print(run_details.as_text_of(run))


def compare(options: Options) -> None:
    """Prints a row for each group of runs that differ only in the seed, and plots their curves."""
    if options.png is not None:
        named_output.check(options.png)
    if len(options.folders) == 1 and is_sweep(options.folders[0]) and not options.where:
        return _compare_sweep(options)
    runs = require_runs(options)
    measured = [run for run in runs if run.metrics or run.facts["status"] == State.DIVERGED]
    for run in runs:
        if run not in measured:
            print(f"left out: {text_table.cell(run.path)}: has no metrics", file=sys.stderr)
        elif (status := run.facts["status"]) not in seed_groups.ENDED:
            what = f"is {status}; its values so far count"
            print(f"{text_table.cell(run.path)}: {what}", file=sys.stderr)
    if not any(run.metrics for run in runs):
        raise errors.SelectionError("no run has metrics to compare")
    metric = metric_of(measured, options.metric)
    direction = options.direction or run_values.known_direction(metric, runs)
    rows = seed_groups.compared(measured, metric, direction)
    _draw(options, rows, metric)
    chart = epoch_curves.as_text(rows, metric)
    doubt = seed_groups.doubt(rows, metric) if direction else None
    text = "\n\n".join(filter(None, [seed_groups.as_table(rows), doubt, chart]))
    answer = {"metric": metric, "groups": seed_groups.plain(rows), "doubt": doubt}
    if not answers.give(answer):
        print(text)


def _compare_sweep(options: Options) -> None:
    """Prints the jobs of a sweep."""
    results = sweep_results.of_folder(options.folders[0], options.metric, options.direction)
    if not results.rows:
        raise errors.SelectionError(
            f"{results.folder}: no job of the sweep is done and has metrics"
            f"{_failures([results.folder])}"
        )
    _draw(options, results.rows, results.metric)
    if not answers.give(results.plain()):
        print(results.as_text())


def _draw(options: Options, rows: Sequence[seed_groups.Row], metric: str) -> None:
    if options.png is not None:
        named_output.write(options.png, [epoch_curves.picture(rows, metric)])


def best(options: Options) -> None:
    """Prints the folder of the finished run with the best value of a metric."""
    runs = require_runs(options)
    metric = metric_of(runs, options.metric)
    valued = [
        run
        for run in runs
        if run.facts["status"] == State.DONE and is_finite(run.value(metric))
    ]
    if not valued:
        raise errors.SelectionError(
            f"none of {len(runs):,} runs is finished and has a finite {metric}; "
            "`runs list` shows how they ended"
        )
    direction = options.direction or run_values.direction_of(metric, runs)
    run = run_values.best_first(valued, metric, direction)[0]
    value = run.value(metric)
    selection = {"metric": metric, "direction": direction, "value": value, "runs": len(valued)}
    if not answers.give({**run_list.plain(run), "chosen_by": selection}):
        print(readable.printable_line(str(run.path)))


def diff(options: Options) -> None:
    """Prints the options, provenance and metrics that differ between two runs."""
    one, other = (RunReader(_run_folder(path)) for path in (options.a, options.b))
    differences = run_details.differences_of(one, other)
    if not answers.give(differences):
        print(run_details.as_text_of_differences(one, other, differences))


def tree(options: Options) -> None:
    """Prints which runs were forked, repeated or started from which, and what changed."""
    lineage = lab_options.module("views.lineage", "`runs tree`")
    rows = lineage.rows(require_runs(options))
    if not answers.give({"tree": rows}):
        print(lineage.as_text_of(rows))


def remove(options: Options) -> Any:
    """Removes runs: the files that they wrote."""
    clearing = lab_options.module("views.clearing", "`runs rm`")
    if not options.folders and not options.where:
        raise errors.SelectionError("name the runs to remove: folders, or --where")
    # what stands elsewhere is removed only if it is named
    folders = options.folders or [*filter(Path.is_dir, DEFAULT_FOLDERS)]
    return clearing.remove(require_runs(options, folders or DEFAULT_FOLDERS), is_agreed=options.yes)


def metric_of(runs: Sequence[RunReader], name: str | None) -> str:
    folders = {run.path.parent for run in runs} if name is None else set()
    sweeps = {path: ledger.read(path).objective for path in folders if is_sweep(path)}
    return run_list.metric_of(runs, name, sweeps)


def _run_folder(name: Path) -> RunFolder:
    """The run's folder, or the newest run's for `latest`, relative to the current directory."""
    return RunFolder(Path(os.path.relpath(named_folder.run_folder_of(str(name)).path)))


def _filtered_runs(options: Options, given: Sequence[Path] = ()) -> list[RunReader]:
    given = given or options.folders
    named = [_run_folder(path).path if path == LATEST else path for path in given]
    folders = named or [*filter(Path.is_dir, DEFAULT_FOLDERS), *named_folder.elsewhere()]
    runs = run_reader.read(named_folder.run_folders(folders))
    return run_values.chosen(runs, options.where)


def require_runs(options: Options, given: Sequence[Path] = ()) -> list[RunReader]:
    """The runs that a command names, or those in `given`.

    Raises: SelectionError if there is none.
    """
    runs = _filtered_runs(options, given)
    if not runs:
        folders = given or options.folders or DEFAULT_FOLDERS
        where = f" with {' and '.join(options.where)}" if options.where else ""
        raise errors.SelectionError(f"no run in {', '.join(map(str, folders))}{where}")
    return runs


def _parser() -> argparse.ArgumentParser:
    parser = declaration.Parser(description=__doc__)

    def no_command(options: Options) -> int:
        parser.print_help()
        return EXIT_USAGE

    parser.set_defaults(act=no_command)
    commands = parser.add_subparsers(metavar="COMMAND")
    for name, (act, arguments) in COMMANDS.items():
        about = act.__doc__
        command = commands.add_parser(name, help=about, description=about)
        command.set_defaults(act=act)
        for argument in arguments.split():
            command.add_argument(argument, **ARGUMENTS[argument])
    return parser


RUN = {"type": Path, "help": "a run folder, or latest"}
SWITCH = {"action": "store_true"}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "folders": {
        "nargs": "*",
        "type": Path,
        "metavar": "FOLDER",
        "help": "run folders, folders that contain runs, or latest (default: all below)",
    },
    "run": RUN,
    "a": RUN,
    "b": RUN,
    "--where": {
        "action": "append",
        "default": [],
        "metavar": "COMPARISON",
        "help": "only runs that satisfy it, such as 'lr<1e-2'; may be repeated",
    },
    "--metric": {
        "metavar": "NAME",
        "help": "valid/accuracy, or valid/accuracy.last (default: the objective of the sweep, or "
        "else the metric of the best checkpoint)",
    },
    "--direction": {
        "choices": improvement.DIRECTIONS,
        "help": "which value is best, if no run has recorded it",
    },
    "--sort": {"metavar": "NAME", "help": "an option, or a metric (best first)"},
    "--reverse": {"help": "reverse the order", **SWITCH},
    "--columns": {"metavar": "NAMES", "help": "such as lr,valid/accuracy.last"},
    "--png": {"type": Path, "metavar": "FILE", "help": "also write the curves there"},
    "--yes": {"help": "do not ask for confirmation", **SWITCH},
}
COMMANDS: dict[str, tuple[Callable[[Options], int | None], str]] = {
    "list": (
        list_runs, "folders --where --metric --direction --sort --reverse --columns"
    ),
    "show": (show, "run"),
    "compare": (compare, "folders --where --metric --direction --png"),
    "best": (best, "folders --where --metric --direction"),
    "diff": (diff, "a b"),
    "tree": (tree, "folders --where"),
    "rm": (remove, "folders --where --yes"),
}  # fmt: skip
RUN_FACTS: dict[str, Schema] = {
    "path": TEXT, "status": STATUS, "options": by_name(), "metrics": by_name(by_name()),
    "problems": list_of(TEXT),
}  # fmt: skip
LISTED_RUN = {**closed(RUN_FACTS), "additionalProperties": True}
PARENT = {  # with the record of a fork
    **closed({"kind": TEXT, "path": TEXT, "is_there": FLAG, "changes": by_name()}),
    "additionalProperties": True,
}
ANSWERS = [
    closed({"runs": list_of(LISTED_RUN)}),
    LISTED_RUN,
    closed({"metric": TEXT, "groups": GROUPS, "doubt": or_null(TEXT)}),
    SWEEP,
    closed({name: by_name(list_of(ANY)) for name in ("options", "provenance", "metrics")}),
    closed({"tree": list_of(closed({
        "path": TEXT, "status": STATUS, "resumed": COUNT, "resumes": by_name(TEXT),
        "parent": or_null(PARENT),
    }))}),
    closed({"removed": by_name(list_of(TEXT))}),
]  # fmt: skip
main = Command(_parser, ANSWERS, lambda options: options.act(options), page="runs.md")
