"""Whether configurations differ from the first, beyond the noise of their seeds."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from andiron import errors
from andiron.shell.cli import answers
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import (
    COUNT, GROUPS, NUMBER, TEXT, VALUE, closed, list_of, or_null,
)  # fmt: skip
from andiron.wings.commands.declaration import Command
from andiron.wings.runs import command, run_values, seed_groups
from andiron.wings.runs.run_reader import RunReader
from andiron_lab.seeds import seed_differences

SIZE: dict[str, Any] = {
    "type": float,
    "metavar": "DIFFERENCE",
    "help": "the seeds needed are for this difference (default: the one found)",
}


def differ(options: command.Options) -> None:
    """Prints how configurations differ from the first, over seeds, and whether that is shown."""
    folders = options.folders or command.DEFAULT_FOLDERS
    sides = _sides(command.require_runs(options, [path]) for path in folders)
    runs = [run for side in sides for run in side]
    metric = command.metric_of(runs, options.metric)
    direction = options.direction or run_values.direction_of(metric, runs)
    notes = list[str]()
    groups = [seed_differences.values(side, metric, notes) for side in sides]
    if len(sides) < 2 or not all(groups):
        why = f"give two configurations with runs that have ended and have {metric}"
        raise errors.SelectionError("\n".join([why, *notes]))
    notes += _unlike_conditions(runs)
    compared = [
        seed_differences.plain(difference, direction, options.size)
        for difference in seed_differences.from_first(groups)
    ]
    rows = seed_groups.as_rows(sides, metric)
    tables = [f"{metric}\n{seed_differences.as_table(compared)}"]
    answer: dict[str, Any] = {
        "metric": metric, "groups": seed_groups.plain(rows), "differences": compared,
        "notes": notes,
    }  # fmt: skip
    if options.samples:
        from andiron_lab.seeds import sample_differences  # torch

        paths = [[run.path for run in side] for side in sides]
        samples = sample_differences.from_first(paths, declaration.trusted(options))
        answer["samples"] = samples
        tables.append(f"test samples\n{seed_differences.as_table(samples)}")
    if not answers.give(answer):
        print("\n\n".join([seed_groups.as_table(rows), *tables, *notes]))


def _unlike_conditions(runs: Sequence[RunReader]) -> list[str]:
    """Notes on code, data and lengths that differ between the runs."""
    origins = [run.provenance for run in runs]
    return [
        *seed_groups.unlike("code", [*map(seed_groups.code_of, origins)]),
        *seed_groups.unlike("data", [origin.get("data") for origin in origins]),
        *seed_groups.unlike("numbers of updates", [run.facts.get("updates") for run in runs]),
    ]


def _sides(named: Iterable[Sequence[RunReader]]) -> list[list[RunReader]]:
    """The groups of each argument; runs named one by one form groups too, if their code is equal.

    A shell names runs one by one for `runs/wide-*`.
    """
    groups: list[list[RunReader]] = []
    alone: list[tuple[Any, list[RunReader]]] = []
    for runs in named:
        result = seed_groups.by_seed(runs)
        if len(runs) == 1:
            recipe = seed_groups.configuration(runs[0]), seed_groups.code_of(runs[0].provenance)
            if same := [group for known, group in alone if known == recipe]:
                same[0].extend(runs)
                continue
            alone.append((recipe, result[0]))
        groups += result
    return groups


def _parser() -> argparse.ArgumentParser:
    parser = declaration.Parser(description=differ.__doc__)
    for name in ("folders", "--where", "--metric", "--direction"):
        parser.add_argument(name, **command.ARGUMENTS[name])
    parser.add_argument("--size", **SIZE)
    samples = "also compare the predictions for the samples of test"
    parser.add_argument("--samples", action="store_true", help=samples)
    declaration.add_trust(parser)
    return parser


DIFFERENCES = list_of(closed({
    "value": VALUE, "numbers": list_of(COUNT), "test": or_null(TEXT), "p": NUMBER,
    "interval": or_null(list_of(NUMBER)), "deviation": NUMBER, "degrees": NUMBER,
    "result": {"enum": ["better", "worse", "not shown", "not tested"]},
    "seeds_needed": or_null(COUNT),
}))  # fmt: skip
ANSWERS = [closed({
    "metric": TEXT, "groups": GROUPS, "differences": DIFFERENCES, "samples": DIFFERENCES,
    "notes": list_of(TEXT),
}, "samples")]  # fmt: skip
main = Command(_parser, ANSWERS, differ, page="differences.md")
