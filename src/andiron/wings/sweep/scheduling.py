"""Runs jobs side by side in processes of their own, enforces their limits, records how they end."""

import logging
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from andiron import errors
from andiron.interrupter import Interrupter
from andiron.plain import readable
from andiron.plain.states import State
from andiron.ranges import Count, Positive
from andiron.run_folder import RunFolder
from andiron.wings.sweep import ledger
from andiron.wings.sweep.job_process import JobProcess
from andiron.wings.sweep.ledger import Job, Ledger

SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_TO_EXIT = 1.0  # for a job, after a second Ctrl-C
SIGNALLED = 128  # exit codes above it name a signal
log = logging.getLogger("andiron")


@dataclass(frozen=True)
class Limits:
    """Limits of a sweep's jobs; conf/hydra/launcher/andiron.yaml describes each."""

    jobs: Count = 1
    job_minutes: Positive | None = None
    grace_seconds: Positive = 30


@dataclass
class RunningJob:
    """A job in its process; `place` numbers the jobs that run side by side."""

    job: Job
    process: JobProcess
    place: int
    since: float
    stopped_at: float | None = None  # when the process was signalled to save and stop
    stopped_as: State | None = None  # its final status: timed out or pruned

    def stop(self, number: int, status: State | None = None) -> None:
        """Signals the process to save and stop."""
        self.stopped_at, self.stopped_as = time.monotonic(), status
        self.process.send(number)

    @property
    def run_folder(self) -> RunFolder | None:
        """The folder of the run, once the job has reported it."""
        folder = self.process.replies.get("folder")
        return RunFolder(Path(folder)) if folder else None


@runtime_checkable
class JobSource(Protocol):
    """Supplies jobs, and is notified when each ends."""

    def next(self) -> Job | None:
        """The next job to start, or a pruned one to record; None until another ends."""

    def is_pruned(self, running: RunningJob) -> bool:
        """Whether to prune a running job, because others are better; by default never."""
        return False

    def job_ended(self, job: Job) -> None:
        """Handles a job that ended."""

    def result(self) -> dict[str, Any]:
        """Fields of the sweep's answer beside its jobs; by default none."""
        return {}


class FixedJobs(JobSource):
    """Supplies a fixed list of jobs, without those that already have a status."""

    def __init__(self, jobs: Iterable[Job]):
        self._waiting = deque(job for job in jobs if job.status is None)

    def next(self) -> Job | None:
        """The next job of the list."""
        return self._waiting.popleft() if self._waiting else None


Start = Callable[[Job, int], JobProcess]  # job, place


@dataclass
class JobScheduler:
    """Runs jobs side by side; records every event in `book`, and calls `show` with ended jobs.

    `folder` is the sweep's folder.
    """

    start: Start
    limits: Limits
    book: Ledger
    folder: Path
    show: Callable[[Job], None]
    _running: list[RunningJob] = field(default_factory=list)
    _warned: set[str] = field(default_factory=set)  # a warning of many jobs is shown once

    def run(self, source: JobSource, interrupter: Interrupter) -> dict[str, Job]:
        """The jobs that ended, by identity.

        Once the interrupter requests a stop, no job is started, and running jobs save and stop.
        Raises: an error of the source, which stops the sweep in the same way.
        """
        ended, failed = dict[str, Job](), None
        interrupter.cleanups.append(self._stop_now)
        while True:
            try:
                while not interrupter.asked and len(self._running) < self.limits.jobs:
                    if (job := source.next()) is None:
                        break
                    if settled := self._started_or_settled(job):
                        ended[job.identity] = settled
                if not self._running:
                    break
                wait([running.process.sentinel for running in self._running], SECONDS_BETWEEN_LOOKS)
                for job in self._ended_jobs(source, interrupter.asked):
                    ended[job.identity] = job
                    source.job_ended(job)
            except errors.AndironError as error:  # of the source, such as a study on a full disk
                failed = failed or error
                interrupter.stop(errors.one_line(error))
        interrupter.cleanups.remove(self._stop_now)
        if failed is not None:
            raise failed
        return ended

    def _started_or_settled(self, job: Job) -> Job | None:
        """Starts the job; one that its source has pruned is recorded and returned."""
        if job.status == State.PRUNED:
            self.show(job)
            seconds = 0 if job.rungs else None
            return self.book.record(
                job, "ended", status=job.status, reason=job.reason, objective=job.objective,
                seconds=seconds,
            )  # fmt: skip
        places = {running.place for running in self._running}
        place = min(set(range(self.limits.jobs)) - places)
        process = self.start(job, place)
        started = self.book.record(
            job, "started", pid=process.pid, threads=job.threads, pause_at=job.pause_at
        )
        self._running.append(RunningJob(started, process, place, time.monotonic()))
        return None

    def _ended_jobs(
        self, source: JobSource, asked: errors.Interrupted | None
    ) -> Iterator[Job]:
        """The jobs that have ended; signals those that have to stop."""
        for running in list(self._running):
            code = running.process.poll()
            for kind, text in running.process.replies.get("warnings", {}).items():
                if kind not in self._warned:
                    log.warning("job %d: %s", running.job.number, text)
                    self._warned.add(kind)
            if code is None:
                self._signal(running, source, asked)
                continue
            self._running.remove(running)
            job = self._record_end(running, code)
            self.show(job)
            yield job

    def _signal(
        self, running: RunningJob, source: JobSource, asked: errors.Interrupted | None
    ) -> None:
        """Signals the process of a job that is over time, pruned, or has to stop with the sweep."""
        now, minutes = time.monotonic(), self.limits.job_minutes
        if running.stopped_at is None and asked:
            running.stop(max(asked.exit_code - SIGNALLED, signal.SIGINT))
        elif running.stopped_at is None:
            is_over_time = minutes is not None and now - running.since > 60 * minutes
            if is_over_time or source.is_pruned(running):
                running.stop(signal.SIGTERM, State.TIMED_OUT if is_over_time else State.PRUNED)
        elif running.stopped_as and now - running.stopped_at > self.limits.grace_seconds:
            running.process.kill()

    def _record_end(self, running: RunningJob, code: int) -> Job:
        """Records the end of a job in the ledger; returns the job with its outcome."""
        if code < 0:  # its child processes end with it
            running.process.kill()
        status, reason = self._outcome(running, code)
        folder, objective = running.run_folder, running.process.replies.get("objective")
        return self.book.record(
            running.job,
            "ended",
            exit_code=code,
            status=status,
            reason=reason,
            folder=str(folder.path.relative_to(self.folder)) if folder else running.job.folder,
            run=ledger.run_in(folder) if folder else None,
            objective=objective[0] if isinstance(objective, list) else objective,  # of several
            seconds=round(time.monotonic() - running.since, 3),
        )

    def _outcome(self, running: RunningJob, code: int) -> tuple[State, str | None]:
        replies = running.process.replies
        status, reason = replies.get("status"), replies.get("reason")
        if "objective" in replies:
            return status or State.DONE, reason
        if running.stopped_as is not None:
            limit = readable.duration(60 * (self.limits.job_minutes or 0))
            is_late = running.stopped_as is State.TIMED_OUT
            return running.stopped_as, f"took longer than {limit}" if is_late else None
        if code < 0:
            name = signal.Signals(-code).name
            memory = ", perhaps out of memory" if name == "SIGKILL" else ""
            return State.KILLED, f"killed by {name}{memory}"
        return status or State.FAILED, reason or f"its process ended with exit code {code}"

    def _stop_now(self) -> None:
        """On a second Ctrl-C: interrupts the jobs once more, then kills those still running."""
        deadline = time.monotonic() + SECONDS_TO_EXIT
        processes = [running.process for running in self._running]
        left = [process for process in processes if process.send(signal.SIGINT)]
        while left and time.monotonic() < deadline:
            time.sleep(0.01)
            left = [process for process in left if process.send(0)]
        for process in left:
            process.kill()
