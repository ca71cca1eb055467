"""Which jobs a sweep has: those that the ledger knows keep their number, new ones get the next."""

import functools
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from andiron.sweep import ledger
from andiron.sweep.ledger import Job, Sweep


def jobs(known: Sweep, overrides: Sequence[Sequence[str]], first: int) -> list[Job]:
    """The job of each list of overrides; a new one has its place behind `first`, if that is free.
    """
    taken = {each.number for each in known.jobs.values()}
    found: list[Job] = []
    for place, texts in enumerate(overrides, first):
        key = ledger.identity(texts)
        job = known.jobs.get(key)
        if job is None:
            number = place if place not in taken else max(taken) + 1
            job = Job(key, number, tuple(ledger.of_the_run(texts)))
            taken.add(number)
        found.append(job)
    return found


def representative(
    overrides: Sequence[Sequence[str]], loader: Any, whole: Collection[str] = ()
) -> list[Sequence[str]]:
    """As many of the jobs as have every option, every choice of a group and every value of `whole`.

    `loader` is Hydra's, which knows the groups.
    """

    @functools.cache
    def is_choice(option: str) -> bool:
        name = option.lstrip("+~").partition("@")[0]
        return name in whole or bool(loader.get_group_options(name))

    seen: set[str] = set()
    few = []
    for job in overrides:
        options = {text: text.partition("=")[0] for text in job}
        marks = {text if is_choice(option) else option for text, option in options.items()}
        if not marks <= seen:
            few.append(job)
            seen |= marks
    return few


def differing(jobs: Sequence[Job]) -> dict[str, list[str]]:
    """The overrides of each job that not every job has, by its identity; of one job all."""
    number = Counter(text for job in jobs for text in set(job.overrides))
    return {
        job.identity: [
            text for text in job.overrides if number[text] < len(jobs) or len(jobs) == 1
        ]
        for job in jobs
    }
