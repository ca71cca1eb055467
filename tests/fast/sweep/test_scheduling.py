"""Jobs side by side without processes: which are retried, and how a second Ctrl-C ends them."""

import os
import signal
from dataclasses import replace

import pytest

from andiron import errors
from andiron.interrupter import Interrupter
from andiron.plain.states import State
from andiron.wings.sweep import ledger, scheduling
from andiron.wings.sweep.job_process import JobProcess
from andiron.wings.sweep.ledger import Job, Ledger
from andiron.wings.sweep.scheduling import FixedJobs, JobScheduler, Limits
from andiron.wings.sweep.sweep_screen import SweepScreen


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


class Quiet:
    """A view that shows nothing; every update calls the next of `actions`."""

    def __init__(self, *actions):
        self.actions = list(actions)
        self.ends = []

    def update(self, running):
        if self.actions:
            self.actions.pop(0)()

    def job_ended(self, job, retried):
        self.ends.append((job.status, retried))


def run(folder, attempts, view, interrupter=None, **limits):
    """The job as the ledger has it, after these attempts."""
    job, waiting = Job("a", 0, ("lr=1",)), list(attempts)
    book = Ledger(folder)
    book.add("job", job=job.identity, number=0, overrides=job.overrides)
    scheduler = JobScheduler(lambda *_: waiting.pop(0), Limits(**limits), book, folder, view)
    scheduler.run(FixedJobs([job]), interrupter or Interrupter())
    book.close()
    return ledger.read(folder).jobs["a"]


@pytest.mark.parametrize(
    ("code", "retries", "ends", "starts"),
    {
        "none": (1, 0, [("failed", False)], 1),
        "one": (1, 1, [("failed", True), ("done", False)], 2),
        "killed": (-9, 1, [("killed", True), ("done", False)], 2),
        "a wrong configuration": (2, 1, [("failed", False)], 1),
    }.values(),
)
def test_a_failed_job_is_retried_unless_its_configuration_is_wrong(
    code, retries, ends, starts, tmp_path
):
    view = Quiet()

    job = run(tmp_path, [Attempt(code), Attempt(0, {"objective": 1.0})], view, retries=retries)

    assert view.ends == ends
    assert (job.status, job.starts) == (ends[-1][0], starts)


def test_a_second_ctrl_c_kills_a_job_that_ignores_it(tmp_path, monkeypatch):
    monkeypatch.setattr(scheduling, "SECONDS_TO_EXIT", 0.01)
    interrupter, stubborn = Interrupter(), Attempt(None)
    view = Quiet(
        lambda: interrupter.stop("SIGINT"), lambda: None, lambda: interrupter.cleanups[0]()
    )

    job = run(tmp_path, [stubborn, Attempt(0)], view, interrupter, retries=1)

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
    scheduler = JobScheduler(lambda *_: waiting.pop(0), limits, book, tmp_path, Quiet())

    with pytest.raises(errors.SweepError, match="^a could not be written$"):
        scheduler.run(Full(jobs), Interrupter())
    book.close()

    known = ledger.read(tmp_path).jobs
    assert [known[name].status for name in "abc"] == ["done", "interrupted", None]
    assert running.sent == [signal.SIGINT]


def test_a_pruned_job_that_a_race_trains_again_is_counted_once(capsys):
    jobs = [Job("a", 0, ("lr=1",), status=State.PRUNED), Job("b", 1, ("lr=2",))]
    screen = SweepScreen(jobs, "valid/loss", "race")

    for status in (State.PAUSED, State.DONE):
        for job in jobs:
            screen.job_ended(replace(job, status=status), retried=False)

    counts = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert counts == ["[1/2]", "[2/2]", "[2/2]", "[2/2]"]
