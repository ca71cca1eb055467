"""Jobs side by side without processes: which are tried again, and how a second Ctrl-C ends them."""

import os
import signal

import pytest

from andiron import errors
from andiron.interrupter import Interrupter
from andiron.sweep import ledger, scheduling
from andiron.sweep.job_process import JobProcess
from andiron.sweep.ledger import Job, Ledger
from andiron.sweep.scheduling import Limits, Planned, Schedule


class Attempt(JobProcess):
    """Ends with the exit code that it is given; with None it runs until it is killed."""

    def __init__(self, code, replies=None):
        self.code, self.replies, self.sent, self.pid = code, replies or {}, [], 1
        self.sentinel, writer = os.pipe()
        os.close(writer)  # ready at once

    def receive(self):
        pass

    def ended(self):
        return self.code

    def send(self, number):
        self.sent.append(number)
        return self.code is None

    def kill(self):
        self.code = -signal.SIGKILL


class Quiet:
    """A screen that shows nothing; `looks` are called one after the other instead."""

    def __init__(self, *looks):
        self.looks = list(looks)
        self.said = []

    def look(self, running):
        if self.looks:
            self.looks.pop(0)()

    def ended(self, job, again):
        self.said.append((job.status, again))


def ran(folder, attempts, shown, interrupter=None, **limits):
    """The job of a schedule with these attempts, and what the ledger says of it."""
    job, waiting = Job("a", 0, ("lr=1",)), list(attempts)
    book = Ledger(folder)
    book.add("job", job=job.identity, number=0, overrides=job.overrides)
    schedule = Schedule(lambda *_: waiting.pop(0), Limits(**limits), book, folder, shown)
    schedule.run(Planned([job]), interrupter or Interrupter())
    book.close()
    return ledger.read(folder).jobs["a"]


@pytest.mark.parametrize(
    ("code", "retries", "said", "starts"),
    {
        "none": (1, 0, [("failed", False)], 1),
        "one": (1, 1, [("failed", True), ("done", False)], 2),
        "killed": (-9, 1, [("killed", True), ("done", False)], 2),
        "a wrong configuration": (2, 1, [("failed", False)], 1),
    }.values(),
)
def test_a_job_that_failed_is_tried_again_unless_its_configuration_is_wrong(
    code, retries, said, starts, tmp_path
):
    shown = Quiet()

    job = ran(tmp_path, [Attempt(code), Attempt(0, {"objective": 1.0})], shown, retries=retries)

    assert shown.said == said
    assert (job.status, job.starts) == (said[-1][0], starts)


def test_a_second_ctrl_c_kills_a_job_that_does_not_take_it(tmp_path, monkeypatch):
    monkeypatch.setattr(scheduling, "SECONDS_TO_EXIT", 0.01)
    interrupter, stubborn = Interrupter(), Attempt(None)
    shown = Quiet(
        lambda: interrupter.stop("SIGINT"), lambda: None, lambda: interrupter.cleanups[0]()
    )

    job = ran(tmp_path, [stubborn, Attempt(0)], shown, interrupter, retries=1)

    assert stubborn.sent[:2] == [signal.SIGINT, signal.SIGINT] and set(stubborn.sent[2:]) == {0}
    assert (job.status, job.starts) == ("killed", 1)


def test_a_supply_that_fails_stops_the_jobs_that_run_before_it_is_reported(tmp_path):
    class Full(Planned):
        def ended(self, job):
            raise errors.SweepError(f"{job.identity} could not be written")

    class Saving(Attempt):
        def send(self, number):
            self.replies["interrupted"], self.code = "interrupted", 130
            return super().send(number)

    ends, running = Attempt(0, {"objective": 1.0}), Saving(None)
    waiting = [ends, running]
    book = Ledger(tmp_path)
    jobs = [Job(name, number, ()) for number, name in enumerate("abc")]
    for job in jobs:
        book.add("job", job=job.identity, number=job.number, overrides=[])
    limits = Limits(jobs=2)
    schedule = Schedule(lambda *_: waiting.pop(0), limits, book, tmp_path, Quiet())

    with pytest.raises(errors.SweepError, match="^a could not be written$"):
        schedule.run(Full(jobs), Interrupter())
    book.close()

    known = ledger.read(tmp_path).jobs
    assert [known[name].status for name in "abc"] == ["done", "interrupted", None]
    assert running.sent == [signal.SIGINT]
