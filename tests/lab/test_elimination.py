"""Which configurations a race drops, and which rounds it trains; no process is started."""

import math
import random
from dataclasses import replace

import pytest

from andiron.plain.states import State
from andiron.wings.sweep import ledger
from andiron_lab.seeds import elimination
from andiron_lab.seeds.elimination import Race, RaceRule
from andiron.wings.sweep.ledger import Job

WHOLE = RaceRule([9], 3, "highest")  # no rungs
RUNGS = replace(WHOLE, places=[1, 3, 9])


def new(configurations, seeds):
    pairs = [(c, seed) for c in range(configurations) for seed in range(seeds)]
    return [Job(str(at), at, (f"lr={c}", f"seed={s}")) for at, (c, s) in enumerate(pairs)]


def raced(jobs, value, rule, events=None, most=math.inf, places=1):
    """The jobs after a race whose objective is `value(configuration, seed, length)`.

    None in place of a value: the job diverges. After `most` legs it is killed, within the next.
    """
    events = [] if events is None else events
    jobs = {job.identity: job for job in jobs}
    source, running = Race(list(jobs.values()), rule), []
    while True:
        while len(running) < places and (job := source.next()) is not None:
            if job.status == State.PRUNED:
                jobs[job.identity] = job
                continue
            jobs[job.identity] = ledger.job_after(
                job, {"event": "started", "pause_at": job.pause_at}
            )
            running.append(jobs[job.identity])
        if not running or len(events) == most:
            return list(jobs.values())
        job = running.pop()  # the last that started ends first
        configuration, seed = (int(text.partition("=")[2]) for text in job.overrides)
        at = value(configuration, seed, job.pause_at or 9)
        status = State.DONE if job.pause_at is None else State.PAUSED
        event = {"event": "ended", "status": status if at is not None else State.DIVERGED}
        jobs[job.identity] = ended = ledger.job_after(job, event | {"objective": at})
        events.append((configuration, seed, job.pause_at))
        source.job_ended(ended)


def standing(jobs, rule):
    return elimination.standing(elimination.by_configuration(jobs), rule)


def left(jobs, rule):
    return [int(key[0].partition("=")[2]) for key in standing(jobs, rule).left]


def noisy(gap, noise=0.01):
    """Configuration c is worse than the one before it by `gap`, with noise of each seed."""
    return lambda c, seed, length: -gap * c + random.Random(f"{c} {seed} {length}").gauss(0, noise)


@pytest.mark.parametrize("rule", [WHOLE, RUNGS])
def test_clear_differences_leave_one_with_at_most_the_fewest_seeds(rule):
    events = []
    jobs = raced(new(9, 10), noisy(1), rule, events)

    assert left(jobs, rule) == [0]
    assert [seed for c, seed, at in events if c == 0 and at is None] == [0, 1, 2]
    pruned = [job for job in jobs if job.status == State.PRUNED]
    assert {job.overrides[0] for job in pruned} == {f"lr={c}" for c in range(1, 9)}
    assert all(job.reason.startswith("worse by ") for job in pruned)
    assert standing(jobs, rule).spent < 0.4 * len(jobs)


def test_the_best_third_of_a_rung_is_never_dropped_there():
    def overtaken(c, seed, length):  # far behind at the first rung, the second is better after it
        return noisy(0.1)(c, seed, length) + (9 if c == 1 and length > 1 else 0)

    jobs = raced(new(6, 6), overtaken, RUNGS)

    assert left(jobs, RUNGS) == [1]


def test_every_run_pauses_at_every_rung_also_once_a_rung_has_nothing_to_drop():
    jobs = raced(new(9, 5), lambda c, s, at: noisy(0)(c, s, at) - (c > 2), RUNGS)

    assert left(jobs, RUNGS) == [0, 1, 2]
    done = [job for job in jobs if job.status == State.DONE]
    assert len(done) == 15 and {tuple(at for at, _ in job.rungs) for job in done} == {(1, 3)}


def test_the_best_of_equal_ones_is_dropped_in_at_most_five_percent_of_races():
    dropped = 0
    for trial in range(100):  # of five equal ones and two worse
        jobs = raced(new(7, 6), lambda c, s, at, trial=trial: random.Random(
            f"{trial} {c} {s}").gauss(-(c > 4), 1), WHOLE)  # fmt: skip
        dropped += 0 not in left(jobs, WHOLE)

    assert dropped <= 5


def test_a_lost_value_is_worse_than_any_and_drops_at_once():
    def value(c, seed, length):
        return None if c in (1, 2) and seed == c - 1 else noisy(0)(c, seed, length)

    jobs = raced(new(4, 4), value, WHOLE)

    assert left(jobs, WHOLE) == [0, 3]
    reasons = {job.overrides[0]: job.reason for job in jobs if job.status == State.PRUNED}
    assert reasons == {"lr=1": "no value of 1 of 1 seeds", "lr=2": "no value of 1 of 2 seeds"}


def test_a_race_without_any_value_ends_after_its_first_round():
    events = []
    jobs = raced(new(3, 4), lambda *_: None, WHOLE, events)

    assert len(events) == 3 and standing(jobs, WHOLE).end == "no run has a value"


def test_no_round_begins_that_the_budget_does_not_cover():
    rule = replace(RUNGS, max_runs=7.9, min_seeds=5)
    events = []

    jobs = raced(new(6, 5), noisy(0), rule, events)

    # 30 legs of 1/9 are 3.3 runs; a round from 1 to 3 is 1.3 runs
    assert len(events) == 30 + 18 and standing(jobs, rule).end == "max_runs is spent"


@pytest.mark.parametrize("rule", [WHOLE, RUNGS])
def test_a_killed_race_continues_to_the_same_result_whatever_ends_first(rule):
    def value(c, seed, length):
        return None if (c, seed) == (2, 1) else noisy(0.012)(c, seed, length)

    whole = []
    end = raced(new(8, 6), value, rule, whole)
    for moment in range(0, len(whole), 7):
        killed = raced(new(8, 6), value, rule, most=moment, places=2)
        again = [job if job.status in (*elimination.SETTLED, State.DONE)
                 else replace(job, status=None) for job in killed]  # fmt: skip
        events = []
        completed = raced(again, value, rule, events, places=3)

        assert len(events) <= len(whole) - moment
        assert [(job.status, job.rungs, job.reason) for job in completed] == [
            (job.status, job.rungs, job.reason) for job in end
        ]


def test_more_seeds_continue_a_race():
    jobs = raced(new(4, 4), noisy(0.005), WHOLE)
    more = [*jobs, *(Job(f"{c}more{seed}", 99, (f"lr={c}", f"seed={seed}"))
                     for c in range(4) for seed in range(4, 12))]  # fmt: skip

    assert left(raced(more, noisy(0.005), WHOLE), WHOLE) == left(
        raced(new(4, 12), noisy(0.005), WHOLE), WHOLE
    )
