"""The ledger of a sweep, `sweep.jsonl` in its folder: the history of each job, one event a line.

A job is identified by its overrides in any order, so the same command finds it again. Folder and
ledger are untrusted: lines that no sweep would write are skipped.
"""

import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from andiron import errors
from andiron.disk import files
from andiron.disk.append_only import AppendOnlyFile
from andiron.plain.plain_values import Named, Plain
from andiron.plain.plain_values import is_finite
from andiron.plain.states import State
from andiron.run_folder import LEDGER, RunFolder
from andiron.shell.config.schema import APART
from andiron.shell.run import log_file, run_record, status

# types of facts; of other types they are skipped
TYPES = {"number": int, "pause_at": int, "folder": str, "run": str, "threads": str, "reason": str}
OUTPUT = "output"  # subfolder with the stdout and stderr of each job
MOST_BYTES = 64 * 2**20  # 1,000 jobs have 0.5 MB
MOST_JOBS = 100_000
MOST_IN_LINE, MOST_VALUES = 2**20, 10_000  # bytes and values
MOST_IN_TEXT = 10_000  # characters of a reason
MOST_RUNGS = 64  # of a job: each is at least twice the one before
IDENTITY = 12  # hexadecimal digits


@dataclass(frozen=True)
class Job:
    """A job in the ledger; `status`, of `andiron.plain.states`, is None until it ends."""

    identity: str
    number: int
    overrides: tuple[str, ...]
    status: State | None = None
    reason: str | None = None
    folder: str | None = None  # relative to the sweep's folder
    run: str | None = None  # identity of its run, once it has ended
    objective: float | None = None
    seconds: float | None = None  # of its newest process and the paused ones before
    starts: int = 0
    threads: str | None = None
    pause_at: int | None = None  # epochs or updates, of its newest start
    rungs: tuple[tuple[int, float | None], ...] = ()  # where it has paused, with the objective
    arguments: tuple[str, ...] = ()  # all its overrides in this command; not in the ledger

    @property
    def has_paused(self) -> bool:
        """Whether it waits at a rung, or was dropped there."""
        return self.status == State.PAUSED or (self.status == State.PRUNED and bool(self.rungs))

    def plain(self, sweep: Path | str) -> Plain:
        """The job as plain values; its run is below the folder `sweep`."""
        names = "number", "overrides", "status", "objective", "seconds", "reason"
        run = f"{sweep}/{self.folder}" if self.folder else None
        return {"run": run} | {name: vars(self)[name] for name in names}


@dataclass
class Sweep:
    """The ledger of a folder: its jobs by identity, and the newest `sweep` event."""

    folder: Path
    jobs: dict[str, Job] = field(default_factory=dict)
    facts: Plain = field(default_factory=dict)

    @property
    def objective(self) -> str | None:
        """The metric that the sweep was given as its only objective."""
        own = self.facts.get("objective")
        return own if isinstance(own, str) else None

    def run_of(self, job: Job) -> RunFolder | None:
        """The folder of the job's run, if inside the sweep's folder and not behind a link."""
        if not job.folder or Path(job.folder).is_absolute():
            return None
        path = self.folder / job.folder
        try:
            is_inside = path.resolve() == self.folder.resolve() / job.folder
        except ValueError:  # not a file name
            return None
        folder = RunFolder(path)
        is_own = is_inside and job.run and run_record.holds_run(folder, job.run)
        return folder if is_own else None

    def current(self, job: Job) -> Job:
        """The job with the present status of its run.

        A paused or pruned run may have been resumed to its end, and the results of a done run may
        be gone.
        """
        if job.status not in (State.DONE, State.PAUSED, State.PRUNED):
            return job
        folder = self.run_of(job)
        if folder is not None and _has_results(folder):
            is_done = job.status == State.DONE
            return job if is_done else replace(job, status=State.DONE, reason=None)
        gone = replace(job, status=State.MISSING, reason="its results are gone, or of another run")
        return gone if job.status == State.DONE else job

    def numbered(self, overrides: Sequence[Sequence[str]], first: int = 0) -> list[Job]:
        """The job of each list of overrides; one in the ledger keeps its number.

        A new job's number is `first` plus its position, or the next one if that number is taken.
        """
        taken = {job.number for job in self.jobs.values()}
        jobs = []
        for position, texts in enumerate(overrides, first):
            key = identity(texts)
            job = self.jobs.get(key)
            if job is None:
                number = position if position not in taken else max(taken) + 1
                job = Job(key, number, tuple(training_overrides(texts)))
                taken.add(number)
            jobs.append(replace(job, arguments=tuple(texts)))
        return jobs


def shared_overrides(jobs: Sequence[Job]) -> set[str]:
    """The overrides that all jobs share; of a single job, none."""
    return set.intersection(*(set(job.overrides) for job in jobs)) if len(jobs) > 1 else set()


def configuration(job: Job) -> tuple[str, ...]:
    """The overrides of a job without the seed."""
    return tuple(text for text in job.overrides if not text.lstrip("+").startswith("seed="))


def identity(overrides: Iterable[str]) -> str:
    """The identity of the job with these overrides.

    >>> identity(["lr=0.1", "jobs=2", "seed=1"]) == identity(["seed=1", "+lr=0.1"])
    True
    """
    text = "\n".join(sorted(option.lstrip("+") for option in training_overrides(overrides)))
    return hashlib.sha256(text.encode()).hexdigest()[:IDENTITY]


def training_overrides(overrides: Iterable[str]) -> list[str]:
    """The overrides that affect training, not how a run is started or shown."""
    apart = ("hydra.", "hydra/", "render.")
    options = ((text, text.partition("=")[0].lstrip("+~")) for text in overrides)
    return [text for text, name in options if name not in APART and not name.startswith(apart)]


def read(folder: Path) -> Sweep:
    """The sweep in a folder; without jobs if there is no ledger.

    Raises: DataError for a ledger that is too large, not a file, or has too many jobs.
    """
    sweep = Sweep(folder)
    try:
        content = files.read_bytes(folder / LEDGER, MOST_BYTES)
    except FileNotFoundError:
        return sweep
    except (OSError, ValueError) as error:
        raise errors.DataError(f"{folder / LEDGER}: cannot be read ({error})") from error
    for line in io.BytesIO(content):
        if len(line) > MOST_IN_LINE or not line.endswith(b"\n"):  # the last may be half written
            continue
        try:
            event = files.parsed_json(line, MOST_VALUES)
        except ValueError:
            continue
        if isinstance(event, dict):
            _apply_event(sweep, {name: value for name, value in event.items()
                                 if type(value) is TYPES.get(name, type(value))})  # fmt: skip
        if len(sweep.jobs) > MOST_JOBS:
            raise errors.DataError(f"{folder / LEDGER}: has more than {MOST_JOBS:,} jobs")
    return sweep


def run_in(folder: RunFolder) -> str | None:
    """The identity of the run in a folder; None without a run, or with a damaged manifest."""
    try:
        return run_record.identity(folder)
    except errors.DataError:
        return None


class Ledger:
    """Appends events to the ledger of a folder, locked against other sweeps.

    Raises: SweepError if another process runs a sweep in the folder, or it cannot be written.
    """

    def __init__(self, folder: Path):
        path = folder / LEDGER
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = AppendOnlyFile(path, claim=log_file.lock)
        except BlockingIOError as error:
            raise errors.SweepError(
                f"another process runs the sweep in {folder}; end it first, or choose another "
                "sweep_name"
            ) from error
        except OSError as error:
            raise errors.SweepError(f"{path} cannot be written ({error.strerror})") from error

    def add(self, event: str, **facts: object) -> None:
        """Adds an event with the time; omits facts that are None, truncates long texts."""
        present = {
            name: value[:MOST_IN_TEXT] if isinstance(value, str) else value
            for name, value in facts.items()
            if value is not None
        }
        line = {"event": event, "at": status.now(), **present}
        self._file.append((json.dumps(line) + "\n").encode())

    def plan(self, job: Job) -> None:
        """Adds a new job."""
        self.add("job", job=job.identity, number=job.number, overrides=job.overrides)

    def record(self, job: Job, event: str, **facts: object) -> Job:
        """Adds that a job `started` or `ended`; returns the job after it."""
        self.add(event, job=job.identity, **facts)
        return job_after(job, {"event": event, **facts})

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _has_results(folder: RunFolder) -> bool:
    """Whether the run is done and its weights have the recorded sizes; they are not read."""
    recorded = run_record.manifest_of(folder).entries.items()
    weights = {name: entries for name, entries in recorded if name.endswith(folder.model.suffix)}
    try:
        are_whole = all(
            (folder.path / name).stat().st_size in (entry["bytes"] for entry in entries)
            for name, entries in weights.items()
        )
    except (OSError, ValueError):  # missing, or not a file name
        return False
    return bool(weights) and are_whole and status.read(folder).get("status") == State.DONE


def _apply_event(sweep: Sweep, event: Plain) -> None:
    """Applies one event: the sweep began, or a job was planned, started or ended."""
    name = event.get("event")
    if name == "sweep":
        sweep.facts = event
    elif name == "job" and event.get("number") in range(MOST_JOBS):
        overrides = event.get("overrides")
        texts = tuple(map(str, overrides)) if isinstance(overrides, list) else ()
        key = str(event.get("job"))
        sweep.jobs.setdefault(key, Job(key, event["number"], texts))
    elif name in ("started", "ended") and str(event.get("job")) in sweep.jobs:
        job = sweep.jobs[str(event["job"])]
        sweep.jobs[job.identity] = job_after(job, event)


def job_after(job: Job, event: Named) -> Job:
    """The job after a `started` or `ended` event."""
    texts = {name: event.get(name) for name in ("folder", "run", "threads")}
    present = {name: value for name, value in texts.items() if value is not None}
    if event["event"] == "started":
        at = event.get("pause_at")
        before = tuple(rung for rung in job.rungs if at is None or rung[0] < at)
        starts = job.starts + 1
        return replace(
            job, status=None, reason=None, starts=starts, pause_at=at, rungs=before, **present
        )
    objective, seconds = (
        value if is_finite(value := event.get(name)) else None for name in ("objective", "seconds")
    )
    status = next((state for state in State if state == event.get("status")), None)
    rungs = job.rungs
    if rungs and seconds is not None:  # resumed where it paused
        seconds += job.seconds or 0
    if status == State.PAUSED and job.pause_at is not None and len(rungs) < MOST_RUNGS:
        rungs = (*rungs, (job.pause_at, objective))
    return replace(
        job,
        status=status,
        rungs=rungs,
        reason=event.get("reason"),
        objective=objective,
        seconds=seconds,
        **present,
    )
