"""Runs the sweeper `optuna`: asks a study for trials, trains them, reports their values."""

import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from andiron import errors
from andiron.plain.states import State
from andiron.shell.config import composition, hydra_node
from andiron.wings.runs import run_list
from andiron.wings.runs.run_reader import RunReader
from andiron.wings.sweep import launching, ledger, objectives, sweep_folder
from andiron.wings.sweep.launching import HydraSweep
from andiron.wings.sweep.ledger import Job, Ledger
from andiron.wings.sweep.scheduling import JobSource, RunningJob
from andiron.wings.sweep.job_lines import JobLines
from andiron_lab.search import optuna_package
from andiron_lab.search.search_options import SearchOptions

log = logging.getLogger("andiron")
LINES = "andiron.writers.JsonLinesWriter"
Options = SearchOptions


def run(sweep: HydraSweep, options: SearchOptions, arguments: list[str]) -> list[Exception]:
    """Runs the remaining trials of the study in the folder; returns the errors of failed jobs.

    Raises: ConfigError for an invalid search; Interrupted once all runs are saved.
    """
    optuna_package.check()
    from andiron_lab.search import search_space, study

    space = search_space.search_space(arguments, sweep.loader)
    plain = [job_config(sweep, corner) for corner in space.corners()][0]
    goals = objectives.objectives(plain, options.directions)
    if options.pruner:
        own_launcher(f"hydra.sweeper.pruner={options.pruner}", sweep, [plain])
    folder, own = sweep_folder.of(sweep.config), _of_sweep(sweep)
    known = ledger.read(folder)  # before locking: closing a file releases its lock
    with closing(Ledger(folder)) as book:
        sweep_study = study.SweepStudy(folder, space, goals, options)
        sweep_folder.record(sweep.config)
        if own is None:
            return _run_in_batches(sweep, sweep_study, int(plain["jobs"]))
        return _run_in_processes(own, sweep_study, book, known)


def job_config(sweep: HydraSweep, overrides: Sequence[str]) -> dict[str, Any]:
    """The plain configuration of the job with these overrides.

    Raises: ConfigError with all its problems.
    """
    return asdict(hydra_node.apart(sweep.compose(overrides), composition.checked_config))


def own_launcher(
    choice: str, sweep: HydraSweep, jobs: Iterable[Mapping[str, object]]
) -> launching.Launcher:
    """The launcher `andiron`, which can stop running jobs; `choice` is the option that needs it.

    Raises: ConfigError for another launcher, or jobs that do not write metrics.jsonl.
    """
    own = _of_sweep(sweep)
    if own is None:
        why = "this launcher cannot stop one run alone; choose hydra/launcher=andiron"
    elif not all(map(_is_logged, jobs)):
        why = "reads metrics.jsonl, which is not written; choose writers=[json_lines] too"
    else:
        return own
    raise errors.ConfigError(f"{choice}: {why}")


def _of_sweep(sweep: HydraSweep) -> launching.Launcher | None:
    """The launcher `andiron`, if it is the one."""
    return getattr(sweep.launcher, "of_sweep", None)


def _is_logged(plain: Mapping[str, Any]) -> bool:
    """Whether a run writes metrics.jsonl."""
    writers = (plain.get("writers") or {}).values()
    return any(writer and writer.get("_target_") == LINES for writer in writers)


def _run_in_processes(
    launcher: launching.Launcher, study: Any, book: Ledger, known: ledger.Sweep
) -> list[Exception]:
    metric = study.objectives[0].name
    book.add("sweep", command=sys.argv, objective=metric)
    launcher.announce(f"{study.left} trials")
    place = launching.as_typed(known.folder)
    lines = JobLines([], metric, place, shared=study.shared, proposed=study.left)
    proposals = Proposals(study, book, known, launcher.threads, lines)
    return launcher.failures(launcher.run(book, proposals, lines.job_ended).values())


@dataclass
class Proposals(JobSource):
    """Supplies the jobs that a study proposes."""

    study: Any
    book: Ledger
    known: ledger.Sweep
    threads: str | None
    lines: JobLines
    _trials: dict[str, list[object]] = field(default_factory=dict)  # running, by job identity
    _sizes: dict[str, int] = field(default_factory=dict)  # of metrics.jsonl when last read

    def next(self) -> Job | None:
        """The next job; trials with the values of a done or running job share its result."""
        while self.study.left:
            trial, overrides = self.study.ask()
            (job,) = self.known.numbered([overrides], len(self.known.jobs))
            is_running = job.identity in self._trials
            self._trials.setdefault(job.identity, []).append(trial)
            if self.known.current(job).status == State.DONE:
                self.lines.job_ended(job)
                self.job_ended(job)
            elif not is_running:
                if job.identity not in self.known.jobs:
                    self.known.jobs[job.identity] = job
                    self.book.plan(job)
                return replace(job, status=None, threads=self.threads)
        return None

    def is_pruned(self, running: RunningJob) -> bool:
        """Whether the study prunes the job, checked after each validation."""
        folder, job = running.run_folder, running.job
        if folder is None:
            return False
        try:
            size = folder.metrics.stat().st_size
            if self._sizes.get(job.identity) == size:
                return False
            self._sizes[job.identity] = size
            logged = RunReader(folder).validations(self.study.objectives[0].name)
            values = [value for _, value in logged]
        except (OSError, errors.DataError) as error:  # not written yet, too large, or damaged
            log.debug("not pruned: %s", error)
            return False
        return any([self.study.report(trial, values) for trial in self._trials[job.identity]])

    def job_ended(self, job: Job) -> None:
        """Reports the job to the study, unless it was interrupted and will be resumed."""
        self.known.jobs[job.identity] = job
        trials = self._trials.pop(job.identity)
        if job.status == State.INTERRUPTED:
            return
        folder = self.known.run_of(job)
        values = None
        if job.status == State.DONE and folder is not None:
            values = [run_list.objective(folder, goal.name) for goal in self.study.objectives]
        is_bad = job.status is not None and job.status.is_bad_trial
        for trial in trials:
            self.study.tell(trial, values, pruned=is_bad)


def _run_in_batches(sweep: HydraSweep, study: Any, jobs: int) -> list[Exception]:
    """Runs trials with any launcher, `jobs` at a time; returns the errors of failed jobs."""
    failed = []
    while study.left:
        trials, overrides = zip(*(study.ask() for _ in range(min(jobs, study.left))), strict=True)
        # trials that wait to be repeated are asked for first, so the numbers are consecutive
        results = sweep.launch(overrides, first=trials[0].number)
        for trial, result in zip(trials, results, strict=True):
            if isinstance(result, Exception):
                failed.append(result)
                study.tell(trial, None, pruned=isinstance(result, errors.DivergedError))
            else:
                study.tell(trial, result if isinstance(result, list) else [result], pruned=False)
    return failed
