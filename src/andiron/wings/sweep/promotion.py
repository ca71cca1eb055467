"""Successive halving: every job trains to the first rung, the best of a rung train to the next.

Asynchronous, as in Li et al. 2020, arXiv:1810.05934, algorithm 2: no worker is idle while a job can
be promoted. There jobs are sampled without end, so the highest rung comes first. Here the jobs are
fixed, so the lowest comes first: a rung has more jobs to choose from, and a single worker promotes
exactly the jobs that synchronous halving does.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from andiron.plain.plain_values import is_finite
from andiron.plain.states import State
from andiron.wings.sweep.ledger import Job
from andiron.wings.sweep.scheduling import JobSource

SETTLED = (State.PAUSED, State.DIVERGED)  # not repeated by the same command, nor is `done`


@dataclass(frozen=True)
class HalvingRule:
    """The rungs below the full length of the runs; 1 / reduction_factor of a rung is promoted."""

    rungs: Sequence[int]  # epochs or updates
    reduction_factor: int
    direction: str  # of the objective: lowest or highest


class Promotions(JobSource):
    """Supplies jobs by the rule; `jobs` are all of the sweep, settled ones with their status.

    Interrupted jobs come first, then jobs that have not started.
    """

    def __init__(self, jobs: Iterable[Job], rule: HalvingRule):
        self._rule = rule
        self._jobs = {job.identity: job for job in jobs}
        left = [job for job in self._jobs.values() if job.status is None]
        self._waiting = deque(sorted(left, key=lambda job: (job.starts == 0, job.number)))
        self._running: set[str] = set()

    def next(self) -> Job | None:
        """The next job, with the rung to pause at."""
        if self._waiting:
            job = self._waiting.popleft()
        else:
            best = job_to_promote(self._jobs.values(), self._rule, is_last_chance=not self._running)
            if best is None:
                return None
            job = replace(best, status=None)
        self._running.add(job.identity)
        rungs = [*self._rule.rungs, None]
        self._jobs[job.identity] = job = replace(job, pause_at=rungs[len(job.rungs)])
        return job

    def job_ended(self, job: Job) -> None:
        """Records the job, which counts in its rung from now on."""
        self._running.remove(job.identity)
        self._jobs[job.identity] = job


def rungs(first: int, factor: int, length: int) -> list[int]:
    """The rungs below `length`.

    >>> rungs(1, 3, 27)
    [1, 3, 9]
    """
    return [] if first >= length else [first, *rungs(first * factor, factor, length)]


def job_to_promote(jobs: Iterable[Job], rule: HalvingRule, *, is_last_chance: bool) -> Job | None:
    """The job to promote, from the lowest rung that has one, or None.

    It is one of the best floor(ended / reduction_factor) of the jobs that ended in its rung. Failed
    jobs count in their rung and rank last. Ties go by job number.

    At the last chance, when no job is running, the best job of the highest rung is promoted even if
    that share is below one job: otherwise few jobs would all end below the full length.
    """
    jobs = list(jobs)
    for index in range(len(rule.rungs)):
        ended = sum(_has_ended(job, index) for job in jobs)
        best = _best_first(jobs, index, rule.direction)[: ended // rule.reduction_factor]
        for job in best:
            if _rung_index(job) == index and job.status == State.PAUSED:
                return job
    for index in reversed(range(len(rule.rungs) + 1) if is_last_chance else ()):
        best = _best_first(jobs, index, rule.direction)
        alive = [job for job in best if _rung_index(job) == index]
        if alive:
            return alive[0] if alive[0].status == State.PAUSED else None
    return None


def _rung_index(job: Job) -> int:
    """The rung, from 0, at which a job is paused, or towards which it trained when it ended."""
    return len(job.rungs) - (job.status == State.PAUSED)


def _has_ended(job: Job, index: int) -> bool:
    return _rung_index(job) > index or (_rung_index(job) == index and job.status is not None)


def _best_first(jobs: Iterable[Job], index: int, direction: str) -> list[Job]:
    """The jobs with a finite objective at a rung, best first."""
    sign = 1 if direction == "lowest" else -1
    measured = [job for job in jobs if is_finite(_value(job, index))]
    return sorted(measured, key=lambda job: (sign * (_value(job, index) or 0), job.number))


def _value(job: Job, index: int) -> float | None:
    """The objective at a rung; of a run that stopped early on the way there, its last."""
    if len(job.rungs) > index:
        return job.rungs[index][1]
    is_early = len(job.rungs) == index and job.status == State.DONE
    return job.objective if is_early else None
