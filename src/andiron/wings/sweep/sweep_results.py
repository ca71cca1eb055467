"""Compares the jobs of a sweep by objective, grouped over seeds; gives the best job's command."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.plain import readable
from andiron.plain.plain_values import Named, Plain
from andiron.plain.plain_values import as_text
from andiron.plain.states import State
from andiron.run_folder import RunFolder
from andiron.shell.config.flags import ONE_RUN
from andiron.wings.runs import run_list, run_reader, run_values, seed_groups
from andiron.wings.runs.seed_groups import Row
from andiron.wings.sweep import ledger, shares
from andiron.wings.sweep.ledger import Job


@dataclass(frozen=True)
class Results:
    """The jobs of a sweep with their objective, a value of `metric`; best row first."""

    folder: Path
    jobs: Sequence[Job]
    metric: str
    rows: Sequence[Row] = ()
    best: Job | None = None
    best_command: str | None = None  # repeats it
    changes: Named = field(default_factory=dict)  # of a resume of the best run

    def plain(self) -> Plain:
        """The results as plain values."""
        return {
            "sweep": str(self.folder),
            "metric": self.metric,
            "best": self.best and self.best.plain(self.folder),
            "best_command": self.best_command,
            "jobs": [job.plain(self.folder) for job in self.jobs],
            "groups": seed_groups.plain(self.rows),
            "doubt": self.doubt,
        }

    @property
    def doubt(self) -> str | None:
        """A line if the seeds do not show that the first group is the best."""
        return seed_groups.doubt(self.rows, self.metric) if self.best else None

    def as_text(self, most: int | None = None) -> str:
        """The table of all groups or the `most` best, and the command that repeats the best run."""
        parts = [seed_groups.as_table(self.rows[:most], most)]
        states = Counter(job.status or "not ended" for job in self.jobs)
        if states.keys() != {State.DONE}:
            counts = (f"{number} {status}" for status, number in states.items())
            parts.append(readable.printable(f"of {len(self.jobs)} jobs: {', '.join(counts)}"))
        if self.best is not None:
            parts += filter(None, [self.doubt])
            parts.append(f"the best again: {self.best_command}")
        if self.changes:
            texts = (f"{name}={as_text(value)}" for name, value in self.changes.items())
            line = f"the best was resumed since, with {' '.join(texts)}"
            parts.append(readable.printable(line.replace("\n", "\\n")))
        return "\n\n".join(parts)


def of_folder(folder: Path, metric: str | None = None, direction: str | None = None) -> Results:
    """The results of a sweep folder, by `metric` or else by the sweep's objective.

    The rows have done jobs only; paused jobs have the last objective that they reached.
    Configurations with a pruned or diverged job come last.
    Raises: SelectionError if no done job has this metric.
    """
    sweep = ledger.read(folder)
    jobs = [*map(sweep.current, sweep.jobs.values())]
    by_path = {
        run.path: job
        for job in jobs
        if (job.status == State.DONE or job.has_paused) and (run := sweep.run_of(job))
    }
    measured = [run for run in run_reader.read(map(RunFolder, by_path)) if run.metrics]
    name = metric or sweep.objective
    if not (done := [run for run in measured if by_path[run.path].status == State.DONE]):
        return Results(folder, jobs, name or "")
    name = run_list.metric_of(done, name)
    direction = direction or run_values.known_direction(name, done)
    out = [_without_fold(job) for job in jobs if job.status and job.status.is_bad_trial]
    rows = seed_groups.compared(done, name, direction, measured)
    rows.sort(key=lambda row: _without_fold(by_path[row.runs[0].path]) in out)
    rows = [replace(row, place=place) for place, row in enumerate(rows, 1)]
    values = {by_path[run.path].identity: run.value(name) for run in measured}
    jobs = [replace(job, objective=values.get(job.identity)) for job in jobs]
    results = Results(folder, jobs, name, rows)
    command = sweep.facts.get("command")
    return _with_best(results, direction, by_path, command) if direction else results


def _without_fold(job: Job) -> list[str]:
    """The overrides of a job without the seed and the fold."""
    return [text for text in ledger.configuration(job) if "data.fold=" not in text]


def _with_best(
    results: Results, direction: str, by_path: Mapping[Path, Job], command: object
) -> Results:
    """The results with the best job of the first row; `command` is that of the sweep."""
    best = run_values.best_first(results.rows[0].runs, results.metric, direction)[0]
    job = by_path[best.path]
    again, changes = command_of(job, command), best.changes()
    return replace(results, best=job, best_command=again, changes=changes)


def command_of(job: Job, sweep: Any) -> str:
    """The command that trains the job's run alone, bit for bit.

    `sweep` is the recorded command of the sweep: its script, and its flags that say where the
    configuration is, are repeated. Without a recorded command, the script is train.py.
    """
    # Hydra takes 90 ms; runs needs none
    from andiron.shell.config import arguments as command_arguments

    threads = "" if job.threads is None else f"{shares.THREADS}={shlex.quote(job.threads)} "
    is_known = sweep and isinstance(sweep, list) and all(isinstance(text, str) for text in sweep)
    script, *arguments = sweep if is_known else ["train.py"]
    start = ["python"] * script.endswith(".py") + [script]
    if script.endswith("__main__.py"):
        start = ["python", "-m", "andiron"]
    flags: list[str] = []
    with suppress(errors.ConfigError):  # a damaged ledger
        flags = command_arguments.of_the_configuration(arguments)
        if not command_arguments.parsed(arguments).multirun:  # a chosen file made it a sweep
            flags.append(ONE_RUN)
    line = f"{threads}{shlex.join([*start, *job.overrides, *flags])}"
    return readable.printable(line.replace("\n", "\\n"))
