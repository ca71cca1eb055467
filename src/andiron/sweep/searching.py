"""Runs the sweeper `optuna`: asks a study for trials, trains them, reports their values."""

import itertools
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig

from andiron import errors
from andiron.comparison import objective, recorded_run
from andiron.config import composition, optuna_package, violations
from andiron.plain import improvement
from andiron.plain.states import State
from andiron.run_folder import RunFolder
from andiron.sweep import launching, ledger, settled, sweep_folder
from andiron.sweep.ledger import Job, Ledger
from andiron.sweep.scheduling import RunningJob
from andiron.sweep.search.search_options import SearchOptions
from andiron.sweep.sweep_screen import SweepScreen

log = logging.getLogger("andiron")
LINES = "andiron.writers.JsonLinesWriter"
Trials = Sequence[tuple[Any, list[str]]]  # of optuna, with the overrides of their runs


def run(
    loader: ConfigLoader,
    config: DictConfig,
    launcher: Launcher,
    sweeper_options: Mapping[str, Any],
    arguments: list[str],
) -> list[Exception]:
    """Runs the remaining trials of the study in the sweep's folder, then plots it.

    Returns the errors of failed jobs.
    Raises: ConfigError for an invalid search; Interrupted once all runs are saved.
    """
    optuna_package.check()
    from andiron.sweep.search import objectives, search_space, study, study_pictures

    options = violations.checked(SearchOptions, sweeper_options, prefix="hydra.sweeper.")
    space = search_space.search_space(options.params or {}, arguments, loader)
    plain = [job_config(loader, config, overrides) for overrides in space.corners()][0]
    goals = objectives.objectives(plain, options.directions)
    own = getattr(launcher, "of_sweep", None)  # set by hydra/launcher=andiron
    if options.pruner:
        own_launcher(f"hydra.sweeper.pruner={options.pruner}", launcher, [plain])
    folder = sweep_folder.of(config)
    folder.mkdir(parents=True, exist_ok=True)
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
    folder, metric = known.folder, study.objectives[0].name
    book.add("sweep", command=sys.argv, objective=metric)
    launcher.announce(f"{study.left} trials")
    view = SweepScreen([], metric, launching.as_typed(folder), proposed=study.left)
    proposals = Proposals(study, book, known, launcher.threads, view)
    ended: dict[str, Job] = {}
    with launching.comparing_at_end(folder, known.jobs):
        launcher.run(book, proposals, proposals.overrides, view, ended)
    return launcher.failures(ended.values())


class Proposals:
    """Supplies the jobs that a study proposes; `overrides` maps each identity to its overrides."""

    def __init__(
        self,
        study: Any,
        book: Ledger,
        known: ledger.Sweep,
        threads: str | None,
        view: SweepScreen,
    ):
        self.overrides: dict[str, list[str]] = {}
        self._study, self._book, self._known = study, book, known
        self._threads, self._view = threads, view
        self._trials: dict[str, list[Any]] = {}  # running, by job identity
        self._sizes: dict[str, int] = {}  # of metrics.jsonl when last read, by job identity

    def next(self) -> Job | None:
        """The next job; trials with the values of a done or running job share its result."""
        while self._study.left:
            trial, overrides = self._study.ask()
            (job,) = settled.jobs(self._known, [overrides], len(self._known.jobs))
            self._view.varied[job.identity] = self._study.varied(trial)
            is_running = job.identity in self._trials
            self._trials.setdefault(job.identity, []).append(trial)
            if self._known.current(job).status == State.DONE:
                self._view.job_ended(job, retried=False)
                self.job_ended(job)
            elif not is_running:
                return self._plan_job(job, overrides)
        return None

    def is_pruned(self, running: RunningJob) -> bool:
        """Whether the study prunes the job, checked after each validation."""
        if running.run_dir is None:
            return False
        folder, job = RunFolder(running.run_dir), running.job
        try:
            size = folder.metrics.stat().st_size
        except OSError:  # not written yet
            return False
        if self._sizes.get(job.identity) == size:
            return False
        self._sizes[job.identity] = size
        try:
            values = list(_validations(folder, self._study.objectives[0].name))
        except errors.DataError as error:  # too large, or damaged: the run continues
            log.debug("not pruned: %s", error)
            return False
        return any([self._study.report(trial, values) for trial in self._trials[job.identity]])

    def job_ended(self, job: Job) -> None:
        """Reports the job to the study, unless it was interrupted and will be resumed."""
        self._known.jobs[job.identity] = job
        trials = self._trials.pop(job.identity)
        if job.status == State.INTERRUPTED:
            return
        folder = self._known.run_of(job)
        values = None
        if job.status == State.DONE and folder is not None:
            values = [objective.value(folder, goal.name) for goal in self._study.objectives]
        for trial in trials:
            is_bad = job.status is not None and job.status.is_bad_trial
            self._study.tell(trial, values, pruned=is_bad)

    def _plan_job(self, job: Job, overrides: list[str]) -> Job:
        if job.identity not in self._known.jobs:
            self._known.jobs[job.identity] = job
            self._book.plan(job)
        self.overrides[job.identity] = overrides
        return replace(job, status=None, threads=self._threads)


def _validations(folder: RunFolder, name: str) -> Iterator[float]:
    """The values of a metric such as `valid/accuracy`, in order."""
    split, metric = improvement.split_and_metric(name)
    for line in recorded_run.epoch_lines(folder):
        if line.split == split and metric in line.values:
            yield float(line.values[metric])


def _run_in_batches(
    launcher: Launcher, config: DictConfig, study: Any, jobs: int
) -> list[Exception]:
    """Runs trials with any launcher, `jobs` at a time; returns the errors of failed jobs."""
    failed = []
    while study.left:
        batch = [study.ask() for _ in range(min(jobs, study.left))]
        for (trial, _), returned in zip(batch, _launch_batch(launcher, config, batch), strict=True):
            value, diverged = returned._return_value, False  # the property would raise the error
            if returned.status is not JobStatus.COMPLETED:
                diverged = isinstance(value, errors.DivergedError)
                failed.append(value)
                value = None
            study.tell(trial, value if isinstance(value, list) else [value], pruned=diverged)
    return failed


def _launch_batch(launcher: Launcher, config: DictConfig, batch: Trials) -> list[JobReturn]:
    """The results of a batch; a launcher needs consecutive numbers, so gaps split the batch."""
    returned: list[JobReturn] = []
    for _, group in itertools.groupby(enumerate(batch), lambda pair: pair[1][0].number - pair[0]):
        trials, overrides = zip(*(entry for _, entry in group), strict=True)
        returned += launching.launch_jobs(launcher, config, overrides, first=trials[0].number)
    return returned
