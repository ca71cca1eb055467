"""Jobs side by side in processes of their own, each held to its limits; how each ends."""

import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Annotated, Protocol, runtime_checkable

from pydantic import Field

from andiron import errors
from andiron.interrupter import Interrupter
from andiron.plain import readable
from andiron.ranges import Count, Positive
from andiron.run_folder import RunFolder
from andiron.sweep import ledger
from andiron.sweep.job_process import JobProcess
from andiron.sweep.ledger import Job, Ledger

SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_TO_EXIT = 1.0  # for a job, after a second Ctrl-C
# not tried again
FINAL = (ledger.DONE, ledger.PAUSED, ledger.INTERRUPTED, ledger.PRUNED, ledger.DIVERGED)
EXIT_USAGE = 2  # of a configuration that no attempt can train
SIGNALLED = 128  # exit codes above it name a signal


@dataclass(frozen=True)
class Limits:
    """Of jobs side by side, and of each; conf/hydra/launcher/andiron.yaml says what they mean."""

    jobs: Count = 1
    retries: Annotated[int, Field(ge=0)] = 0
    job_minutes: Positive | None = None
    job_gib: Positive | None = None
    grace_seconds: Positive = 30


@dataclass
class Running:
    """A job in its process, at one of the places side by side."""

    job: Job
    process: JobProcess
    place: int
    since: float
    stopped_at: float | None = None  # when the process was told to save and stop
    stopped_as: str | None = None  # timed out or pruned: what its status will be
    is_wrong: bool = False  # its configuration was refused

    @property
    def run_dir(self) -> Path | None:
        """The folder of the run, once the job has told it."""
        folder = self.process.replies.get("folder")
        return Path(folder) if folder else None


@runtime_checkable
class Shown(Protocol):
    """What shows the sweep to the person who started it."""

    def look(self, running: Sequence[Running]) -> None: ...

    def ended(self, job: Job, again: bool) -> None: ...


@runtime_checkable
class Supply(Protocol):
    """Where jobs come from; it hears how each ends."""

    def next(self) -> Job | None:
        """The next job to start; None if there is none before another has ended."""

    def is_pruned(self, running: Running) -> bool:
        """Whether a job that runs is to be stopped, because others are better."""

    def ended(self, job: Job) -> None:
        """Takes note of a job that has ended, and is not tried again."""


class Planned:
    """A supply of jobs that are known from the start; those that have a status are left out."""

    def __init__(self, jobs: Iterable[Job]):
        self._waiting = deque(each for each in jobs if each.status is None)

    def next(self) -> Job | None:
        """The next in their order."""
        return self._waiting.popleft() if self._waiting else None

    def is_pruned(self, running: Running) -> bool:
        """Never."""
        return False

    def ended(self, job: Job) -> None:
        """Nothing follows from it."""


Start = Callable[[Job, int], JobProcess]  # at a place


class Schedule:
    """Runs jobs side by side; `book` gets every event, and `folder` is that of the sweep."""

    def __init__(self, start: Start, limits: Limits, book: Ledger, folder: Path, shown: Shown):
        self._start = start
        self._limits = limits
        self._book = book
        self._folder = folder
        self._shown = shown
        self._running: list[Running] = []
        self._failures: dict[str, int] = {}

    def run(self, supply: Supply, interrupter: Interrupter) -> dict[str, Job]:
        """The jobs as they ended, by identity; those that were not started are missing.

        Once the interrupter is asked to stop, no job is started, and each that runs saves its
        state and stops. Raises: an error of the supply, which stops the sweep in the same way.
        """
        again, ended = deque[Job](), dict[str, Job]()
        failed: errors.AndironError | None = None
        interrupter.cleanups.append(self._end_at_once)
        while True:
            try:
                while not interrupter.asked and len(self._running) < self._limits.jobs:
                    following = again.popleft() if again else supply.next()
                    if following is None:
                        break
                    self._begin(following)
                if not self._running:
                    break
                wait([each.process.sentinel for each in self._running], SECONDS_BETWEEN_LOOKS)
                for running in list(self._running):
                    running.process.receive()
                    job = self._looked_after(running, supply, interrupter.asked)
                    if job is not None and self._is_tried_again(job, running, interrupter.asked):
                        again.append(job)
                    elif job is not None:
                        ended[job.identity] = job
                        supply.ended(job)
                self._shown.look(self._running)
            except errors.AndironError as error:  # of the supply, such as a study on a full disk
                failed = failed or error
                interrupter.stop(errors.one_line(error))
        interrupter.cleanups.remove(self._end_at_once)
        if failed is not None:
            raise failed
        return ended

    def _begin(self, job: Job) -> None:
        places = {each.place for each in self._running}
        place = min(set(range(self._limits.jobs)) - places)
        process = self._start(job, place)
        facts = {"threads": job.threads, "pause_at": job.pause_at}
        self._book.add("started", job=job.identity, pid=process.pid, **facts)
        started = ledger.after(job, {"event": "started", **facts})
        self._running.append(Running(started, process, place, time.monotonic()))

    def _looked_after(
        self, running: Running, supply: Supply, asked: errors.Interrupted | None
    ) -> Job | None:
        """The job, if it has ended; one that is too late, or has to stop, is told to."""
        code = running.process.ended()
        if code is not None:
            self._running.remove(running)
            return self._recorded(running, code)
        now, minutes = time.monotonic(), self._limits.job_minutes
        if running.stopped_at is None and asked:
            running.stopped_at = now
            running.process.send(max(asked.exit_code - SIGNALLED, signal.SIGINT))
        elif running.stopped_at is None:
            is_late = minutes is not None and now - running.since > 60 * minutes
            if is_late or supply.is_pruned(running):
                running.stopped_at = now
                running.stopped_as = ledger.TIMED_OUT if is_late else ledger.PRUNED
                running.process.send(signal.SIGTERM)
        elif running.stopped_as and now - running.stopped_at > self._limits.grace_seconds:
            running.process.kill()
        return None

    def _recorded(self, running: Running, code: int) -> Job:
        """The job as it ended, written to the ledger."""
        if code < 0:  # what it has started ends with it
            running.process.kill()
        running.is_wrong = code == EXIT_USAGE
        status, reason = self._outcome(running, code)
        run_dir = running.run_dir
        facts = {
            "status": status,
            "reason": reason,
            "folder": str(run_dir.relative_to(self._folder)) if run_dir else running.job.folder,
            "run": ledger.run_in(RunFolder(run_dir)) if run_dir else None,
            "objective": _first(running.process.replies.get("objective")),
            "seconds": round(time.monotonic() - running.since, 3),
        }
        self._book.add("ended", job=running.job.identity, exit_code=code, **facts)
        return ledger.after(running.job, {"event": "ended", **facts})

    def _outcome(self, running: Running, code: int) -> tuple[str, str | None]:
        said = running.process.replies
        if "objective" in said:
            return (ledger.PAUSED, said["paused"]) if "paused" in said else (ledger.DONE, None)
        if running.stopped_as == ledger.PRUNED:
            return ledger.PRUNED, None
        if running.stopped_as == ledger.TIMED_OUT:
            limit = readable.duration(60 * (self._limits.job_minutes or 0))
            return ledger.TIMED_OUT, f"took longer than {limit}"
        if code < 0:
            name = signal.Signals(-code).name
            memory = ", perhaps for want of memory" if name == "SIGKILL" else ""
            return ledger.KILLED, f"killed by {name}{memory}"
        if "diverged" in said:
            return ledger.DIVERGED, str(said["diverged"])
        if "interrupted" in said:
            return ledger.INTERRUPTED, str(said["interrupted"])
        return ledger.FAILED, str(said.get("error", f"its process ended with exit code {code}"))

    def _is_tried_again(
        self, job: Job, running: Running, asked: errors.Interrupted | None
    ) -> bool:
        is_hopeless = job.status in FINAL or running.is_wrong
        failures = 0 if is_hopeless else self._failures.get(job.identity, 0) + 1
        self._failures[job.identity] = failures
        again = 0 < failures <= self._limits.retries and not asked
        self._shown.ended(job, again)
        return again

    def _end_at_once(self) -> None:
        """After a second Ctrl-C, which each job takes as one of its own; or it is killed."""
        deadline = time.monotonic() + SECONDS_TO_EXIT
        processes = [each.process for each in self._running]
        left = [each for each in processes if each.send(signal.SIGINT)]
        while left and time.monotonic() < deadline:
            time.sleep(0.01)
            left = [each for each in left if each.send(0)]
        for process in left:
            process.kill()


def _first(objective: float | list[float | None] | None) -> float | None:
    """The objective by which jobs are compared, of one or several."""
    return objective[0] if isinstance(objective, list) else objective
