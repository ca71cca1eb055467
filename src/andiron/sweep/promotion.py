"""Successive halving: every job trains to the first rung, and the best of a rung go on to the next.

Asynchronous, as in Li et al. 2020, arXiv:1810.05934, algorithm 2: no place is free while a job can
go on. There jobs are drawn without end, so the highest rung comes first. Here all are known, so the
lowest comes first: a rung has more to choose from, and one place at a time promotes the very jobs
that synchronous halving does.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from andiron.plain.plain_values import is_finite
from andiron.sweep import ledger
from andiron.sweep.ledger import Job
from andiron.sweep.scheduling import Running

SETTLED = (ledger.PAUSED, ledger.DIVERGED)  # beside done: the same command does not repeat it


@dataclass(frozen=True)
class Rule:
    """The rungs below the whole length of the runs, and which share of a rung goes on."""

    rungs: Sequence[int]  # epochs or updates
    reduction_factor: int
    direction: str  # of the objective: lowest or highest


class Promotions:
    """A supply of jobs by the rule; `jobs` are all of the sweep, settled ones with their status.

    Those that were cut off come first, then those that have not begun.
    """

    def __init__(self, jobs: Iterable[Job], rule: Rule):
        self._rule = rule
        self._jobs = {each.identity: each for each in jobs}
        left = [each for each in self._jobs.values() if each.status is None]
        self._waiting = deque(sorted(left, key=lambda job: (job.starts == 0, job.number)))
        self._running: set[str] = set()

    def next(self) -> Job | None:
        """The next job, with where it has to pause."""
        if self._waiting:
            job = self._waiting.popleft()
        else:
            found = promoted(self._jobs.values(), self._rule, is_last_chance=not self._running)
            if found is None:
                return None
            job = replace(found, status=None)
        self._running.add(job.identity)
        rungs = [*self._rule.rungs, None]
        self._jobs[job.identity] = job = replace(job, pause_at=rungs[len(job.rungs)])
        return job

    def is_pruned(self, running: Running) -> bool:
        """Never: a job pauses by itself."""
        return False

    def ended(self, job: Job) -> None:
        """Takes note of where it stands."""
        self._running.remove(job.identity)
        self._jobs[job.identity] = job


def rungs(first: int, factor: int, length: int) -> list[int]:
    """The rungs below the length.

    >>> rungs(1, 3, 27)
    [1, 3, 9]
    """
    return [] if first >= length else [first, *rungs(first * factor, factor, length)]


def promoted(jobs: Iterable[Job], rule: Rule, *, is_last_chance: bool) -> Job | None:
    """The job to go on, of the lowest rung that has one; None if there is none.

    It is one of the best floor(ended / reduction_factor) of the jobs that ended in its rung; a job
    that failed has ended there too, as the worst. Equal ones go by their number.

    With the last chance, when no job is running, the best of the highest rung goes on even if that
    share is less than one job: otherwise few jobs would all end below the whole length.
    """
    known = list(jobs)
    for place in range(len(rule.rungs)):
        ended = sum(_has_ended(job, place) for job in known)
        best = _best_first(known, place, rule.direction)[: ended // rule.reduction_factor]
        for job in best:
            if _place(job) == place and job.status == ledger.PAUSED:
                return job
    for place in reversed(range(len(rule.rungs) + 1) if is_last_chance else ()):
        alive = [job for job in _best_first(known, place, rule.direction) if _place(job) == place]
        if alive:
            return alive[0] if alive[0].status == ledger.PAUSED else None
    return None


def _place(job: Job) -> int:
    """The rung, from 0, at which a job is paused, or else to which it trained when it ended."""
    return len(job.rungs) - (job.status == ledger.PAUSED)


def _has_ended(job: Job, place: int) -> bool:
    return _place(job) > place or (_place(job) == place and job.status is not None)


def _best_first(jobs: Iterable[Job], place: int, direction: str) -> list[Job]:
    """The jobs that ended in a rung with a finite objective."""
    sign = 1 if direction == "lowest" else -1
    measured = [job for job in jobs if is_finite(_value(job, place))]
    return sorted(measured, key=lambda job: (sign * (_value(job, place) or 0), job.number))


def _value(job: Job, place: int) -> float | None:
    """The objective at a rung, also of a run that stopped early on the way to it."""
    if len(job.rungs) > place:
        return job.rungs[place][1]
    is_early = len(job.rungs) == place and job.status == ledger.DONE
    return job.objective if is_early else None
