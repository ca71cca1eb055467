"""What the sweeper `optuna` does: asks a study for trials, and tells it what became of them."""

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
from andiron.run_folder import RunFolder
from andiron.sweep import launching, ledger, settled, sweep_folder
from andiron.sweep.ledger import Job, Ledger
from andiron.sweep.scheduling import Running
from andiron.sweep.search.search_options import SearchOptions
from andiron.sweep.sweep_screen import SweepScreen

log = logging.getLogger("andiron")
LINES = "andiron.writers.JsonLinesWriter"
Trials = Sequence[tuple[Any, list[str]]]  # of optuna, with the overrides of their runs


def run(
    loader: ConfigLoader,
    config: DictConfig,
    launcher: Launcher,
    given: Mapping[str, Any],
    arguments: list[str],
) -> list[Exception]:
    """Runs the trials that are left of the study in the sweep's folder, and draws its pictures.

    The errors of those that failed are returned.

    `given` are the options of the sweeper; `launcher` is that which Hydra made.
    Raises: ConfigError for a search that cannot be; Interrupted once all runs are saved.
    """
    optuna_package.check()
    from andiron.sweep.search import objectives, search_space, study, study_pictures

    options = violations.checked(SearchOptions, given, prefix="hydra.sweeper.")
    space = search_space.search_space(options.params or {}, arguments, loader)
    plain = [checked(loader, config, overrides) for overrides in space.corners()][0]
    sought = objectives.objectives(plain, options.directions)
    own = getattr(launcher, "of_sweep", None)  # of the launcher andiron
    if options.pruner:
        own_launcher(f"hydra.sweeper.pruner={options.pruner}", launcher, [plain])
    folder = sweep_folder.of(config)
    folder.mkdir(parents=True, exist_ok=True)
    known = ledger.read(folder)  # before it is locked: closing a file releases its lock
    with closing(Ledger(folder)) as book:
        found = study.SweepStudy(folder, space, sought, options)
        sweep_folder.record(config)
        if own is None:
            failed = _run_in_batches(launcher, config, found, int(plain["jobs"]))
        else:
            failed = _run_in_processes(own, found, book, known)
    for path in study_pictures.drawn(found, folder):
        print(launching.as_typed(path))
    return failed


def checked(
    loader: ConfigLoader, config: DictConfig, overrides: Sequence[str]
) -> Mapping[str, Any]:
    """The plain configuration of the job with these overrides.

    Raises: ConfigError with every mistake in it.
    """
    return asdict(composition.checked_job(loader.load_sweep_config(config, list(overrides))))


def own_launcher(
    choice: str, launcher: Launcher, jobs: Iterable[Mapping[str, Any]]
) -> launching.Launcher:
    """The launcher of this project, for what compares jobs while they train and stops some.

    Raises: ConfigError for another launcher, or jobs whose metrics are not logged as lines.
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
    """Whether a run writes what its metrics are read from while it trains."""
    writers = (plain.get("writers") or {}).values()
    return any(each and each.get("_target_") == LINES for each in writers)


def _run_in_processes(
    launcher: launching.Launcher, study: Any, book: Ledger, known: ledger.Sweep
) -> list[Exception]:
    folder, metric = known.folder, study.objectives[0].name
    book.add("sweep", command=sys.argv, objective=metric)
    shown = SweepScreen([], metric, launching.as_typed(folder), proposed=study.left)
    proposals = Proposals(study, book, known, launcher.threads, shown)
    ended: dict[str, Job] = {}
    with launching.compared(folder, known.jobs):
        launcher.run(book, proposals, proposals.given, shown, ended)
    return launcher.failures(ended.values())


class Proposals:
    """The jobs that a study proposes, for a schedule; `given` are their overrides by identity."""

    def __init__(
        self,
        study: Any,
        book: Ledger,
        known: ledger.Sweep,
        threads: str | None,
        shown: SweepScreen,
    ):
        self.given: dict[str, list[str]] = {}
        self._study, self._book, self._known = study, book, known
        self._threads, self._shown = threads, shown
        self._trials: dict[str, list[Any]] = {}  # under way, by the identity of their job
        self._sizes: dict[str, int] = {}  # of the logs that were read

    def next(self) -> Job | None:
        """The next job; one that is done, or under way, serves every trial with its values."""
        while self._study.left:
            trial, overrides = self._study.ask()
            (job,) = settled.jobs(self._known, [overrides], len(self._known.jobs))
            self._shown.varied[job.identity] = self._study.varied(trial)
            is_under_way = job.identity in self._trials
            self._trials.setdefault(job.identity, []).append(trial)
            if self._known.current(job).status == ledger.DONE:
                self._shown.ended(job, again=False)
                self.ended(job)
            elif not is_under_way:
                return self._planned(job, overrides)
        return None

    def is_pruned(self, running: Running) -> bool:
        """Whether the study gives the job up, after a validation."""
        if running.run_dir is None:
            return False
        folder, job = RunFolder(running.run_dir), running.job
        try:
            size = folder.metrics.stat().st_size
        except OSError:  # not there yet
            return False
        if self._sizes.get(job.identity) == size:
            return False
        self._sizes[job.identity] = size
        try:
            values = list(_validations(folder, self._study.objectives[0].name))
        except errors.DataError as error:  # too large, or damaged: the run itself goes on
            log.debug("not pruned: %s", error)
            return False
        return any([self._study.report(trial, values) for trial in self._trials[job.identity]])

    def ended(self, job: Job) -> None:
        """Tells the study; of a job that was interrupted, the next command does."""
        self._known.jobs[job.identity] = job
        trials = self._trials.pop(job.identity)
        if job.status == ledger.INTERRUPTED:
            return
        folder = self._known.run_of(job)
        values = None
        if job.status == ledger.DONE and folder is not None:
            values = [objective.value(folder, each.name) for each in self._study.objectives]
        for trial in trials:
            self._study.tell(trial, values, pruned=job.status in ledger.GIVEN_UP)

    def _planned(self, job: Job, overrides: list[str]) -> Job:
        if job.identity not in self._known.jobs:
            self._known.jobs[job.identity] = job
            self._book.plan(job)
        self.given[job.identity] = overrides
        return replace(job, status=None, threads=self._threads)


def _validations(folder: RunFolder, name: str) -> Iterator[float]:
    """The values of a metric such as `valid/accuracy`, in their order."""
    split, metric = improvement.split_and_metric(name)
    for line in recorded_run.epoch_lines(folder):
        if line.split == split and metric in line.values:
            yield float(line.values[metric])


def _run_in_batches(
    launcher: Launcher, config: DictConfig, study: Any, jobs: int
) -> list[Exception]:
    """Runs trials by a launcher of Hydra's, `jobs` at a time; the errors of those that failed."""
    failed = []
    while study.left:
        batch = [study.ask() for _ in range(min(jobs, study.left))]
        for (trial, _), returned in zip(batch, _launched(launcher, config, batch), strict=True):
            value, diverged = returned._return_value, False  # the property would raise an error
            if returned.status is not JobStatus.COMPLETED:
                diverged = isinstance(value, errors.DivergedError)
                failed.append(value)
                value = None
            study.tell(trial, value if isinstance(value, list) else [value], pruned=diverged)
    return failed


def _launched(launcher: Launcher, config: DictConfig, batch: Trials) -> list[JobReturn]:
    """What the jobs of a batch returned; a launcher takes those together whose numbers follow."""
    returned: list[JobReturn] = []
    for _, group in itertools.groupby(enumerate(batch), lambda each: each[1][0].number - each[0]):
        trials, overrides = zip(*(each for _, each in group), strict=True)
        returned += launching.launched(launcher, config, overrides, first=trials[0].number)
    return returned
