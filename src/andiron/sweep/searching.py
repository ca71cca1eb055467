"""Runs the sweeper `optuna`: asks a study for trials, trains them, reports their values."""

import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.utils import JobStatus
from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig

from andiron import errors
from andiron.comparison import objective, recorded_run
from andiron.config import composition, optuna_package
from andiron.plain.states import State
from andiron.sweep import launching, ledger, settled, sweep_folder
from andiron.sweep.ledger import Job, Ledger
from andiron.sweep.scheduling import RunningJob
from andiron.sweep.search.search_options import SearchOptions
from andiron.sweep.sweep_screen import SweepScreen

log = logging.getLogger("andiron")
LINES = "andiron.writers.JsonLinesWriter"
Options = SearchOptions


def run(
    loader: ConfigLoader,
    config: DictConfig,
    launcher: Launcher,
    options: SearchOptions,
    arguments: list[str],
) -> list[Exception]:
    """Runs the remaining trials of the study in the sweep's folder, then plots it.

    Returns the errors of failed jobs.
    Raises: ConfigError for an invalid search; Interrupted once all runs are saved.
    """
    optuna_package.check()
    from andiron.sweep.search import objectives, search_space, study, study_pictures

    space = search_space.search_space(arguments, loader)
    plain = [job_config(loader, config, overrides) for overrides in space.corners()][0]
    goals = objectives.objectives(plain, options.directions)
    own = getattr(launcher, "of_sweep", None)  # set by hydra/launcher=andiron
    if options.pruner:
        own_launcher(f"hydra.sweeper.pruner={options.pruner}", launcher, [plain])
    folder = sweep_folder.of(config)
    known = ledger.read(folder)  # before locking: closing a file releases its lock
    with closing(Ledger(folder)) as book:
        sweep_study = study.SweepStudy(folder, space, goals, options)
        sweep_folder.record(config)
        if own is None:
            failed = _run_in_batches(launcher, config, sweep_study, int(plain["jobs"]))
        else:
            failed = _run_in_processes(own, sweep_study, book, known)
    for path in study_pictures.draw(sweep_study, folder):
        print(launching.as_typed(path))
    return failed


def job_config(
    loader: ConfigLoader, config: DictConfig, overrides: Sequence[str]
) -> Mapping[str, Any]:
    """The plain configuration of the job with these overrides.

    Raises: ConfigError with all its problems.
    """
    return asdict(composition.checked_job(loader.load_sweep_config(config, list(overrides))))


def own_launcher(
    choice: str, launcher: Launcher, jobs: Iterable[Mapping[str, Any]]
) -> launching.Launcher:
    """The launcher `andiron`, which can stop running jobs; `choice` is the option that needs it.

    Raises: ConfigError for another launcher, or jobs that do not write metrics.jsonl.
    """
    own: launching.Launcher | None = getattr(launcher, "of_sweep", None)
    if own is None:
        why = "this launcher cannot stop one run alone; choose hydra/launcher=andiron"
    elif not all(map(_is_logged, jobs)):
        why = "reads metrics.jsonl, which is not written; choose writers=[json_lines] too"
    else:
        return own
    raise errors.ConfigError([f"{choice}: {why}"])


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
    view = SweepScreen([], study.shared, metric, place, proposed=study.left)
    proposals = Proposals(study, book, known, launcher.threads, view)
    return launcher.failures(launcher.run(book, proposals, view, known.jobs))


@dataclass
class Proposals:
    """Supplies the jobs that a study proposes."""

    study: Any
    book: Ledger
    known: ledger.Sweep
    threads: str | None
    view: SweepScreen
    _trials: dict[str, list[Any]] = field(default_factory=dict)  # running, by job identity
    _sizes: dict[str, int] = field(default_factory=dict)  # of metrics.jsonl when last read

    def next(self) -> Job | None:
        """The next job; trials with the values of a done or running job share its result."""
        while self.study.left:
            trial, overrides = self.study.ask()
            (job,) = settled.jobs(self.known, [overrides], len(self.known.jobs))
            is_running = job.identity in self._trials
            self._trials.setdefault(job.identity, []).append(trial)
            if self.known.current(job).status == State.DONE:
                self.view.job_ended(job, retried=False)
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
        except OSError:  # not written yet
            return False
        if self._sizes.get(job.identity) == size:
            return False
        self._sizes[job.identity] = size
        try:
            logged = list(recorded_run.validations(folder, self.study.objectives[0].name))
        except errors.DataError as error:  # too large, or damaged: the run continues
            log.debug("not pruned: %s", error)
            return False
        values = [value for _, value in logged]
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
            values = [objective.value(folder, goal.name) for goal in self.study.objectives]
        is_bad = job.status is not None and job.status.is_bad_trial
        for trial in trials:
            self.study.tell(trial, values, pruned=is_bad)


def _run_in_batches(
    launcher: Launcher, config: DictConfig, study: Any, jobs: int
) -> list[Exception]:
    """Runs trials with any launcher, `jobs` at a time; returns the errors of failed jobs."""
    failed = []
    while study.left:
        trials, overrides = zip(*(study.ask() for _ in range(min(jobs, study.left))), strict=True)
        # trials that wait to be repeated are asked for first, so the numbers are consecutive
        results = launching.launch_jobs(launcher, config, overrides, first=trials[0].number)
        for trial, result in zip(trials, results, strict=True):
            value = result._return_value  # the property would raise the error
            if result.status is JobStatus.COMPLETED:
                study.tell(trial, value if isinstance(value, list) else [value], pruned=False)
            else:
                failed.append(value)
                study.tell(trial, None, pruned=isinstance(value, errors.DivergedError))
    return failed
