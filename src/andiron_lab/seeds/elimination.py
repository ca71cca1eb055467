"""Which configurations a race still trains, and on which seed: dropped once shown to be worse.

A round trains one seed of every configuration that is left, to a rung or to the end. Everything
follows from the values of complete rounds, so a killed race continues to the same result.
"""

import math
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from andiron.plain.plain_values import is_finite
from andiron.plain.readable import number
from andiron.plain.states import State
from andiron_lab.seeds import differences
from andiron.wings.sweep import ledger
from andiron.wings.sweep.ledger import Job
from andiron.wings.sweep.scheduling import JobSource

SETTLED = (State.PAUSED, State.DIVERGED, State.PRUNED)  # not repeated by the same command
UNFINISHED = (None, State.PAUSED, State.PRUNED)
Configuration = tuple[str, ...]  # the overrides of a job without the seed
Runs = Mapping[Configuration, Sequence[Job]]  # in the order of the seeds


@dataclass(frozen=True)
class RaceRule:
    """Where and how configurations are compared.

    At a rung, the best 1 / reduction_factor is never dropped.
    """

    places: Sequence[int]  # the rungs and the full length, in epochs or updates
    reduction_factor: int
    direction: str  # of the objective: lowest or highest
    min_seeds: int = 3
    confidence: float = 0.95
    max_runs: float = math.inf  # of full length; a paused run counts in part


@dataclass
class Standing:
    """The configurations that are left, the reasons of the others, and the round to train."""

    left: Runs
    dropped: dict[Configuration, str]
    waiting: Sequence[Job] = ()  # of a round that is not complete
    spent: float = 0  # runs of full length
    end: str = "all seeds are trained"  # why the race ends with several left


class Race(JobSource):
    """Supplies jobs by the rule; `jobs` are all of the sweep, settled ones with their status."""

    def __init__(self, jobs: Iterable[Job], rule: RaceRule):
        self._rule = rule
        self._jobs = {job.identity: job for job in jobs}
        self._queue: deque[Job] = deque()
        self._running: set[str] = set()

    def next(self) -> Job | None:
        """The next job of the round, or one to record as pruned with its configuration."""
        if not self._queue and not self._running:
            self._queue.extend(self._next_round())
        if not self._queue:
            return None
        job = self._queue.popleft()
        self._jobs[job.identity] = job
        if job.status is None:
            self._running.add(job.identity)
        return job

    def job_ended(self, job: Job) -> None:
        """Records the job, whose value counts once its round is complete."""
        self._running.remove(job.identity)
        self._jobs[job.identity] = job

    def result(self) -> dict[str, Any]:
        """The configurations that are left and dropped, and the part of all training."""
        end = standing(by_configuration(self._jobs.values()), self._rule)
        dropped = [{"configuration": [*key], "reason": why} for key, why in end.dropped.items()]
        why = end.end if len(end.left) > 1 else None
        return {"race": {"left": [*end.left], "not_shown": why, "dropped": dropped,
                         "trained": end.spent / len(self._jobs)}}  # fmt: skip

    def _next_round(self) -> Iterator[Job]:
        runs = by_configuration(self._jobs.values())
        now = standing(runs, self._rule)
        for key, reason in now.dropped.items():
            for job in runs[key]:
                if job.status in (None, State.PAUSED):
                    yield replace(job, status=State.PRUNED, reason=reason)
        yield from (replace(job, status=None) for job in now.waiting)


def by_configuration(jobs: Iterable[Job]) -> Runs:
    """The jobs that differ in the seed only, together."""
    runs: dict[Configuration, list[Job]] = {}
    for job in jobs:
        runs.setdefault(ledger.configuration(job), []).append(job)
    return runs


def standing(runs: Runs, rule: RaceRule) -> Standing:
    """The standing after the complete rounds of a race.

    With m configurations and n tests on the way, each test is at (1 - confidence) / n, corrected
    over the m - 1 comparisons with the best: all tests together drop the truly best one with a
    probability of at most 1 - confidence.
    """
    now = Standing(dict(runs), {})
    seeds = max(map(len, runs.values()))
    tests = len(rule.places) * max(1, seeds - rule.min_seeds + 1)
    pauses = [*rule.places[:-1], None]  # each in turn: a value at every rung, whoever is left
    reached: dict[str, int] = {}
    for stage, place in enumerate(rule.places):
        is_last = place == rule.places[-1]
        fewest = 1 if is_last else math.ceil(len(now.left) / rule.reduction_factor)
        for done in range(1, seeds + 1):
            if len(now.left) <= fewest and not (is_last and done <= rule.min_seeds):
                break
            jobs = [runs[done - 1] for runs in now.left.values()]
            cost = sum(place - reached.get(job.identity, 0) for job in jobs) / rule.places[-1]
            if now.spent + cost > rule.max_runs:
                return replace(now, end="max_runs is spent")
            now.waiting = _waiting(jobs, stage, pauses)
            if now.waiting:
                return now
            now.spent += cost
            reached |= dict.fromkeys((job.identity for job in jobs), place)
            if done == 1 and all(_value(job, stage) is None for job in jobs):
                return replace(now, end="no run has a value")
            rows = _values_by_seed(now.left, done, stage)
            level = (1 - rule.confidence) / tests if done >= rule.min_seeds else 0
            at = f"{done} seeds" if is_last else f"{done} seeds at {place}/{rule.places[-1]}"
            worse = _worse(rows, rule.direction, level, fewest, at)
            now.dropped |= worse
            now.left = {key: runs for key, runs in now.left.items() if key not in worse}
    return now


def label(configuration: Configuration, runs: Iterable[Configuration]) -> str:
    """The overrides in which a configuration differs from one of `runs`.

    >>> label(("lr=1", "jobs=2"), [("lr=1", "jobs=2"), ("lr=2", "jobs=2")])
    'lr=1'
    """
    shared = set.intersection(*map(set, runs))
    return " ".join(text for text in configuration if text not in shared)


def _waiting(jobs: Iterable[Job], stage: int, pauses: Sequence[Any]) -> list[Job]:
    """The jobs that have not reached this stage, each with the place of its next pause."""
    return [
        replace(job, pause_at=pauses[len(job.rungs)])
        for job in jobs
        if len(job.rungs) <= stage and job.status in UNFINISHED
    ]


def _values_by_seed(
    runs: Runs, seeds: int, stage: int
) -> dict[Configuration, dict[Hashable, float]]:
    """The values of the first seeds of each configuration at a stage; seeds without one left out.
    """
    return {
        key: {seed: value for seed, job in enumerate(jobs[:seeds])
              if (value := _value(job, stage)) is not None}
        for key, jobs in runs.items()
    }  # fmt: skip


def _worse(
    rows: Mapping[Configuration, Mapping[Hashable, float]],
    direction: str,
    level: float,
    fewest: int,
    at: str,
) -> dict[Configuration, str]:
    """The configurations to drop after a round, with the reason; `rows` have a value by seed.

    A seed without a value is worse than any value. The best `fewest` are not dropped for theirs.
    """
    sign = -1 if direction == "highest" else 1
    best, *others = sorted(
        rows, key=lambda key: (-len(rows[key]), sign * fmean([*rows[key].values()] or [0]))
    )
    most = len(rows[best])
    lost = {
        key: f"no value of {most - len(row)} of {at}"
        for key, row in rows.items()
        if len(row) < most
    }
    tested = [key for key in others if key not in lost] if level else []
    compared = [differences.by_seed(rows[key], rows[best]) for key in tested]
    p_values = differences.holm([difference.p / 2 for difference in compared])  # one-sided
    name = label(best, rows)
    worse = {
        key: f"worse by {number(abs(difference.value))}, p = {p:.1g}, {at}, than {name}"
        for place, (key, difference, p) in enumerate(
            zip(tested, compared, p_values, strict=True), 2
        )
        if p < level and place > fewest
    }
    return worse | lost


def _value(job: Job, stage: int) -> float | None:
    """The finite objective at a rung or at the end; of a run that stopped early, its last."""
    value = job.rungs[stage][1] if len(job.rungs) > stage else job.objective
    has_value = len(job.rungs) > stage or job.status == State.DONE
    return value if has_value and is_finite(value) else None
