"""Jobs side by side without processes: how they end, and how a second Ctrl-C ends them."""

import os
import signal
from dataclasses import replace

import pytest

from andiron import errors
from andiron.interrupter import Interrupter
from andiron.plain.states import State
from andiron.wings.sweep import ledger, scheduling
from andiron.wings.sweep.job_lines import JobLines
from andiron.wings.sweep.job_process import JobProcess
from andiron.wings.sweep.ledger import Job, Ledger
from andiron.wings.sweep.scheduling import FixedJobs, JobScheduler, Limits


class Attempt(JobProcess):
    """Ends with exit code `code`; with None it runs until it is killed."""

    def __init__(self, code, replies=None):
        self.code, self.replies, self.sent, self.pid = code, replies or {}, [], 1
        self.sentinel, writer = os.pipe()
        os.close(writer)  # ready at once

    def poll(self):
        return self.code

    def send(self, number):
        self.sent.append(number)
        return self.code is None

    def kill(self):
        self.code = -signal.SIGKILL


def run(folder, attempt, interrupter=None, source=FixedJobs):
    """The job as the ledger has it, after its only attempt."""
    job, shown = Job("a", 0, ("lr=1",)), []
    book = Ledger(folder)
    book.add("job", job=job.identity, number=0, overrides=job.overrides)
    scheduler = JobScheduler(lambda *_: attempt, Limits(), book, folder, shown.append)
    scheduler.run(source([job]), interrupter or Interrupter())
    book.close()
    assert [job.status for job in shown] == [ledger.read(folder).jobs["a"].status]
    return ledger.read(folder).jobs["a"]


@pytest.mark.parametrize(
    ("code", "replies", "status"),
    [(0, {"objective": 1.0}, "done"), (1, {}, "failed"), (2, {}, "failed"), (-9, {}, "killed")],
)
def test_a_job_ends_as_its_process_does(code, replies, status, tmp_path):
    job = run(tmp_path, Attempt(code, replies))
    assert (job.status, job.starts) == (status, 1)


def test_a_second_ctrl_c_kills_a_job_that_ignores_it(tmp_path, monkeypatch):
    monkeypatch.setattr(scheduling, "SECONDS_TO_EXIT", 0.01)
    interrupter, stubborn = Interrupter(), Attempt(None)

    class Stopped(FixedJobs):
        def is_pruned(self, running):  # asked at each look at a running job
            interrupter.stop("SIGINT")
            return False

    def send(number):
        if stubborn.sent.append(number) is None and stubborn.sent == [signal.SIGINT]:
            interrupter.cleanups[0]()  # the second Ctrl-C
        return True

    monkeypatch.setattr(stubborn, "send", send)
    job = run(tmp_path, stubborn, interrupter, Stopped)

    assert stubborn.sent[:2] == [signal.SIGINT, signal.SIGINT] and set(stubborn.sent[2:]) == {0}
    assert (job.status, job.starts) == ("killed", 1)


def test_an_error_of_the_source_stops_running_jobs_before_it_is_raised(tmp_path):
    class Full(FixedJobs):
        def job_ended(self, job):
            raise errors.SweepError(f"{job.identity} could not be written")

    class Saving(Attempt):
        def send(self, number):
            self.replies["status"], self.code = State.INTERRUPTED, 130
            return super().send(number)

    ends, running = Attempt(0, {"objective": 1.0}), Saving(None)
    waiting = [ends, running]
    book = Ledger(tmp_path)
    jobs = [Job(name, number, ()) for number, name in enumerate("abc")]
    for job in jobs:
        book.add("job", job=job.identity, number=job.number, overrides=[])
    limits = Limits(jobs=2)
    scheduler = JobScheduler(lambda *_: waiting.pop(0), limits, book, tmp_path, lambda job: None)

    with pytest.raises(errors.SweepError, match="^a could not be written$"):
        scheduler.run(Full(jobs), Interrupter())
    book.close()

    known = ledger.read(tmp_path).jobs
    assert [known[name].status for name in "abc"] == ["done", "interrupted", None]
    assert running.sent == [signal.SIGINT]


def test_a_pruned_job_that_a_race_trains_again_is_counted_once(capsys):
    jobs = [Job("a", 0, ("lr=1",), status=State.PRUNED), Job("b", 1, ("lr=2",))]
    lines = JobLines(jobs, "valid/loss", "race")

    for status in (State.PAUSED, State.DONE):
        for job in jobs:
            lines.job_ended(replace(job, status=status))

    counts = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert counts == ["[1/2]", "[2/2]", "[2/2]", "[2/2]"]
