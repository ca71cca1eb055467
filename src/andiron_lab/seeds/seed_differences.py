"""Differences between groups of runs: each group is one configuration, trained with some seeds."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from andiron.plain.readable import number
from andiron.wings.runs import text_table
from andiron_lab.seeds import differences
from andiron_lab.seeds.differences import Difference
from andiron.wings.runs.run_reader import RunReader
from andiron.wings.runs.run_values import comparable
from andiron.wings.runs.seed_groups import ENDED


def values(runs: Iterable[RunReader], metric: str, notes: list[str]) -> dict[Hashable, float]:
    """The metric by seed, NaN for a diverged run; `notes` gets a line for each run left out.

    A run that has not ended would count with fewer updates, and a repeated one twice.
    """
    by_seed: dict[Hashable, float] = {}
    for run in runs:
        status, seed = run.facts["status"], comparable(run.options.get("seed", str(run.path)))
        value = run.result(metric)
        if status in ENDED and value is not None and seed not in by_seed:
            by_seed[seed] = value
        else:
            why = f"has seed {seed} again" if seed in by_seed else f"is {status}"
            why = f"has no {metric}" if value is None else why
            notes.append(f"left out: {text_table.cell(run.path)}: {why}")
    return by_seed


def corrected(compared: Sequence[Difference], tries: float = 1.0) -> list[Difference]:
    """The differences of several groups from one, p corrected for their number.

    `tries` corrects it further if the one was chosen by its result.
    """
    p_values = differences.holm([min(1.0, difference.p * tries) for difference in compared])
    return [replace(difference, p=p) for difference, p in zip(compared, p_values, strict=True)]


def from_first(groups: Sequence[Mapping[Hashable, float]], tries: float = 1.0) -> list[Difference]:
    """The difference of each group from the first, `corrected`."""
    first, *rest = groups
    every = [[*group.values()] for group in rest]
    result = [
        differences.by_seed(first, group, every[:place] + every[place + 1 :])
        for place, group in enumerate(rest)
    ]
    return corrected(result, tries)


def plain(difference: Difference, direction: str, size: float | None = None) -> dict[str, Any]:
    """A difference, its result, and the seeds that show one of `size`, or of the value found."""
    is_better = (difference.value > 0) == (direction == "highest")
    word = ("worse", "better")[is_better] if difference.is_shown else "not shown"
    result = word if difference.interval else "not tested"
    return asdict(difference) | {"result": result, "seeds_needed": difference.seeds_needed(size)}


def as_table(compared: Sequence[Mapping[str, Any]]) -> str:
    """A line for each of the differences from the first group."""
    rows = [
        [
            place,
            number(difference["value"]),
            difference["interval"] and " to ".join(map(number, difference["interval"])),
            difference["interval"] and number(difference["p"]),
            difference["test"],
            difference["result"],
            number(difference["deviation"]) if difference["deviation"] else None,
            difference["seeds_needed"],
        ]
        for place, difference in enumerate(compared, 2)
    ]
    headers = [
        "group", "from group 1", "95 % interval", "p", "test", "result", "noise", "seeds needed",
    ]  # fmt: skip
    return text_table.table(headers, rows)
