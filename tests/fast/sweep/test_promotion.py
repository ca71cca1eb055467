"""Which jobs successive halving promotes, and in which order; no process is started."""

import math

import pytest

from andiron.plain.states import State
from andiron.wings.sweep import ledger, promotion
from andiron.wings.sweep.ledger import Job
from andiron.wings.sweep.promotion import HalvingRule, Promotions

RULE = HalvingRule([1, 3, 9], 3, "highest")
DIVERGED = -1.0  # in place of a job's value


def new(number):
    return [Job(str(each), each, ()) for each in range(number)]


def paused(number, *values):
    return Job(
        str(number), number, (), State.PAUSED, starts=1, rungs=tuple(zip(RULE.rungs, values))
    )


def swept(jobs, value, events=None, most=math.inf):
    """The jobs after a sweep with `jobs=1`, whose objective is `value(number, length)`.

    `events` gets each leg; after `most` legs the sweep is killed, in the middle of the next.
    """
    events = [] if events is None else events
    jobs = {job.identity: job for job in jobs}
    left = [job if job.status in promotion.SETTLED else again(job) for job in jobs.values()]
    source = Promotions(left, RULE)
    while (job := source.next()) is not None:
        begun = ledger.job_after(job, {"event": "started", "pause_at": job.pause_at})
        jobs[job.identity] = begun
        if len(events) == most:
            break
        at = value(job.number, job.pause_at or 27)
        status = State.DONE if job.pause_at is None else State.PAUSED
        status = State.DIVERGED if at == DIVERGED else status
        ended = ledger.job_after(begun, {"event": "ended", "status": status, "objective": at})
        jobs[job.identity] = ended
        events.append((job.number, job.pause_at))
        source.job_ended(ended)
    return list(jobs.values())


def again(job):
    """A job as the next command finds it."""
    is_done = job.status == State.DONE
    return job if is_done else Job(job.identity, job.number, (), starts=job.starts, rungs=job.rungs)


def by_number(number, length):
    return float(number)


def test_the_best_third_of_each_rung_is_promoted():
    events = []

    jobs = swept(new(27), by_number, events)

    assert events[:27] == [(number, 1) for number in range(27)]
    assert events[27:] == [
        *((number, 3) for number in range(26, 17, -1)), *((number, 9) for number in (26, 25, 24)),
        (26, None),
    ]  # fmt: skip
    assert [job.number for job in jobs if job.status == State.DONE] == [26]


def test_the_lowest_rung_that_has_a_job_to_promote_comes_first():
    second = [paused(number, number, 10 - number) for number in (4, 5, 6)]
    first = [paused(number, number) for number in (7, 8, 9)]

    assert promotion.job_to_promote([*first, *second], RULE, is_last_chance=False).number == 9
    assert promotion.job_to_promote([*first[:2], *second], RULE, is_last_chance=False).number == 8
    assert promotion.job_to_promote(second, RULE, is_last_chance=False).number == 4


def test_a_share_below_one_job_promotes_only_at_the_last_chance():
    jobs = [paused(0, 0.5), paused(1, 0.7)]

    assert promotion.job_to_promote(jobs, RULE, is_last_chance=False) is None
    assert promotion.job_to_promote(jobs, RULE, is_last_chance=True).number == 1


def test_few_jobs_still_end_with_one_that_is_done():
    for number in range(1, 9):
        jobs = swept(new(number), by_number)
        assert [job.number for job in jobs if job.status == State.DONE] == [number - 1]


@pytest.mark.parametrize(("direction", "number"), [("highest", 2), ("lowest", 1)])
def test_ranking_follows_the_direction_then_the_number_nan_last(direction, number):
    values = {0: math.nan, 1: 0.5, 2: 0.7, 3: 0.5, 4: 0.7, 5: None}
    rule = HalvingRule(RULE.rungs, 6, direction)

    best = promotion.job_to_promote(
        [paused(*each) for each in values.items()], rule, is_last_chance=False
    )

    assert best.number == number


def test_jobs_that_failed_count_in_their_rung_and_are_never_promoted():
    events = []

    jobs = swept(new(9), lambda number, length: DIVERGED if number > 4 else number, events)

    assert events[9:] == [(4, 3), (3, 3), (2, 3), (4, 9), (4, None)]
    assert sum(job.status == State.DIVERGED for job in jobs) == 4


def test_a_promoted_job_that_fails_is_replaced_by_the_next_best():
    def value(number, length):
        return DIVERGED if number == 2 and length == 27 else number

    jobs = swept(new(3), value)

    assert [job.number for job in jobs if job.status == State.DONE] == [1]


def test_a_run_that_stopped_early_is_done_and_its_rung_has_its_value():
    early = Job("9", 9, (), State.DONE, objective=9.0, starts=2, rungs=((1, 8.0),))
    jobs = [early, paused(1, 1.0, 1.0), paused(2, 2.0, 2.0)]

    # the best of three is done
    assert promotion.job_to_promote(jobs, RULE, is_last_chance=False) is None
    assert promotion.job_to_promote(jobs, RULE, is_last_chance=True) is None


def test_a_killed_sweep_continues_to_the_same_decisions():
    def value(number, length):
        return DIVERGED if number == 4 else math.sin(number * length)

    whole = []
    end = swept(new(10), value, whole)
    for moment in range(len(whole)):
        events = []
        completed = swept(swept(new(10), value, events, most=moment), value, events)
        assert events == whole
        assert [(job.status, job.rungs) for job in completed] == [
            (job.status, job.rungs) for job in end
        ]


def test_later_jobs_are_compared_with_the_earlier_jobs():
    jobs = swept(new(9), by_number)
    events = []

    swept([*jobs, *(Job(str(each), each, ()) for each in range(9, 18))], by_number, events)

    assert events[:9] == [(number, 1) for number in range(9, 18)]
    assert (17, None) in events and (6, 3) not in events[9:]


def test_two_workers_promote_without_waiting_for_the_whole_rung():
    source = Promotions(new(4), RULE)
    first, second, third, fourth = (source.next() for _ in range(4))
    for job in (second, third, fourth):
        begun = ledger.job_after(job, {"event": "started", "pause_at": job.pause_at})
        facts = {"event": "ended", "status": State.PAUSED, "objective": float(job.number)}
        source.job_ended(ledger.job_after(begun, facts))

    promoted = source.next()

    assert (promoted.number, promoted.pause_at) == (fourth.number, 3)
    assert source.next() is None  # of the four, first may be better than the others
    assert first.pause_at == 1
