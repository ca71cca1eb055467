"""The jobs of a sweep: jobs in the ledger keep their number, new jobs get the next."""

import functools
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from andiron.sweep import ledger
from andiron.sweep.ledger import Job, Sweep


def jobs(known: Sweep, overrides: Sequence[Sequence[str]], first: int) -> list[Job]:
    """The job of each list of overrides.

    A new job's number is `first` plus its position, or the next one if that number is taken.
    """
    taken = {job.number for job in known.jobs.values()}
    numbered = []
    for position, texts in enumerate(overrides, first):
        key = ledger.identity(texts)
        job = known.jobs.get(key)
        if job is None:
            number = position if position not in taken else max(taken) + 1
            job = Job(key, number, tuple(ledger.training_overrides(texts)))
            taken.add(number)
        numbered.append(replace(job, arguments=tuple(texts)))
    return numbered


def representative(
    overrides: Sequence[Sequence[str]], loader: Any, whole: Collection[str] = ()
) -> list[Sequence[str]]:
    """Few jobs that have every option, every choice of a group and every value of `whole`.

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


def shared_overrides(jobs: Sequence[Job]) -> set[str]:
    """The overrides that all jobs share; of a single job, none."""
    return set.intersection(*(set(job.overrides) for job in jobs)) if len(jobs) > 1 else set()
