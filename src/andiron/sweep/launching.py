"""What the launcher does: jobs that the ledger does not know as done, each in its own process."""

import gc
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobRuntime, JobStatus
from hydra.errors import HydraException
from hydra.plugins.launcher import Launcher as HydraLauncher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from andiron import errors
from andiron.comparison import objective, recorded_run, run_search
from andiron.config import violations
from andiron.config.composition import Composed
from andiron.sweep import job, ledger, settled, shares, sweep_folder, sweep_results
from andiron.sweep.job_composition import JobComposition
from andiron.sweep.job_configs import JobConfigs
from andiron.sweep.job_process import JobProcess, Surroundings, start_clean_process
from andiron.sweep.ledger import Job, Ledger, Sweep
from andiron.sweep.scheduling import Limits, Planned, Schedule, Supply
from andiron.sweep.sweep_screen import SweepScreen
from andiron.training import train_run

MOST_GROUPS = 20  # in the table at the end
Supplied = Callable[[Iterable[Job]], Supply]


@dataclass(frozen=True)
class Launcher:
    """A sweep as Hydra describes it, whose jobs can be launched."""

    context: HydraContext
    training: train_run.Training
    config: DictConfig
    job_configs: JobConfigs
    limits: Limits
    threads: str | None  # of each job; None: as many as a run alone has

    @property
    def folder(self) -> Path:
        """Of the sweep."""
        return sweep_folder.of(self.config)

    def launch(self, overrides: Sequence[Sequence[str]], first: int) -> list[JobReturn]:
        """Runs those jobs that are not done; what each returned, in the order of `overrides`.

        Raises: as `trained`.
        """
        return [
            self.returned(job, list(texts))
            for job, texts in zip(self.trained(overrides, first), overrides, strict=True)
        ]

    def trained(
        self,
        overrides: Sequence[Sequence[str]],
        first: int,
        supplied: Supplied = Planned,
        settled_as: Collection[str] = (),
    ) -> list[Job]:
        """Runs the jobs as `supplied`; each as it ended, in their order.

        One that the ledger knows keeps its status if it is done, or in `settled_as`.
        Raises: ConfigError for no jobs, or what is wrong in all; Interrupted once the jobs that ran
        have saved their state.
        """
        self._check(overrides)
        self.folder.mkdir(parents=True, exist_ok=True)
        known = ledger.read(self.folder)  # before it is locked: closing a file releases its lock
        jobs = settled.jobs(known, overrides, first)
        given = {each.identity: list(texts) for each, texts in zip(jobs, overrides, strict=True)}
        unique = {each.identity: self._again(known, each, settled_as) for each in jobs}
        supply = supplied(unique.values())
        ended: dict[str, Job] = {}
        with compared(self.folder, ended), closing(Ledger(self.folder)) as book:
            self._plan(book, [each for key, each in unique.items() if key not in known.jobs])
            self._run(book, list(unique.values()), supply, given, ended)
        return [ended[each.identity] for each in jobs]

    def _check(self, overrides: Sequence[Sequence[str]]) -> None:
        """Refuses what no job could be trained with.

        Raises: ConfigError.
        """
        if not overrides:
            raise errors.ConfigError(["the sweep has no job: no combination of values"])
        if len(overrides) > 1 and not self._environment(place=0):
            problems = self.job_configs.shared_problems(overrides)
            if problems:
                raise errors.ConfigError(problems)

    def _environment(self, place: int) -> dict[str, str]:
        """The variables in which a job at a place differs from the sweep."""
        gpus = shares.visible_gpus(os.environ)
        return shares.environment_of(place, gpus=gpus, sharing=self.limits.jobs)

    def _again(self, known: Sweep, each: Job, settled_as: Collection[str]) -> Job:
        """A job of the ledger as this command finds it; if it is done, its objective may differ."""
        if self.config.overwrite:
            return Job(each.identity, each.number, each.overrides, threads=self.threads)
        each = known.current(each)
        folder = known.run_of(each)
        if folder is not None and each.status == ledger.DONE:
            return replace(each, objective=objective.value(folder, self.metric()))
        status = each.status if each.status in settled_as else None
        return replace(each, status=status, pause_at=None, threads=self.threads)

    def _plan(self, book: Ledger, new: Sequence[Job]) -> None:
        book.add("sweep", command=sys.argv, objective=self.metric())
        for each in new:
            book.plan(each)

    def _run(
        self,
        book: Ledger,
        jobs: Sequence[Job],
        supply: Supply,
        given: Mapping[str, list[str]],
        ended: dict[str, Job],
    ) -> None:
        """As `run`; jobs that are settled are added as they are."""
        if done := sum(each.status == ledger.DONE for each in jobs):
            print(f"{done} of {len(jobs)} jobs are done already")
        ended |= {each.identity: each for each in jobs if each.status is not None}
        shown = SweepScreen(jobs, self.metric(), as_typed(self.folder))
        waiting = [given[each.identity] for each in jobs if each.status is None]
        self.job_configs.compose_ahead(waiting)
        self.run(book, supply, given, shown, ended)

    def run(
        self,
        book: Ledger,
        supply: Supply,
        given: Mapping[str, list[str]],
        shown: SweepScreen,
        ended: dict[str, Job],
    ) -> None:
        """Runs the jobs of a supply, whose overrides are `given`, and adds them to `ended`.

        Raises: Interrupted once the jobs that ran have saved their state.
        """

        def start(each: Job, place: int) -> JobProcess:
            return self._start(each, place, given[each.identity])

        interrupter = self.training.signals.interrupter
        gc.enable()  # the configuration of each job becomes garbage of 1 MB
        try:
            with shown, interrupter.held_back():
                schedule = Schedule(start, self.limits, book, self.folder, shown)
                ended |= schedule.run(supply, interrupter)
        except errors.Interrupted as error:
            number = sum(each.status == ledger.DONE for each in ended.values())
            is_named = self.config.sweep_name is not None
            place = "" if is_named else f" with hydra.sweep.dir={as_typed(self.folder)}"
            error.outcome = f"{number} jobs are done; the same command{place} continues the others"
            raise

    def _start(self, each: Job, place: int, overrides: list[str]) -> JobProcess:
        own = self._environment(place)
        threads = {} if self.threads is None else {shares.THREADS: self.threads}
        gib = self.limits.job_gib
        composed = self.job_configs.of(overrides)
        request = job.Request(
            hydra_context=self.context,
            config=composed[0] if composed else self.config,
            is_composed=composed is not None,
            # where it may name a variable that is another in the job, the job checks it
            checked=composed[1] if composed and not own else None,
            task_name=JobRuntime.instance().get("name"),
            overrides=overrides,
            number=each.number,
            arguments=self.training.arguments,
            command=[sys.argv[0], *each.overrides],
            is_known=each.starts > 0 and (bool(each.rungs) or not self.config.overwrite),
            run=each.run,
            pause_at=each.pause_at,
        )
        surroundings = Surroundings(
            self.folder / ledger.OUTPUT / f"{each.number}.txt",
            {**os.environ, **threads, **own},
            None if gib is None else int(gib * 2**30),
        )
        return JobProcess(job.run, request, surroundings)

    def metric(self) -> str | None:
        """The metric by which the jobs are compared."""
        given, split, metric = (
            OmegaConf.select(self.config, name)
            for name in ("objective", "checkpoint.split", "checkpoint.metric")
        )
        first = given[0] if OmegaConf.is_list(given) else given
        return first or (f"{split}/{metric}" if metric else None)

    def failures(self, jobs: Iterable[Job]) -> list[Exception]:
        """The errors of the jobs that failed; a pruned or diverged job is a bad trial, no failure.
        """
        settled_as = ledger.DONE, ledger.PAUSED, *ledger.GIVEN_UP
        failed = [each for each in jobs if each.status not in settled_as]
        return [self.returned(each, [])._return_value for each in failed]

    def returned(self, ended: Job, overrides: list[str]) -> JobReturn:
        """What Hydra's sweepers expect of a job."""
        returned = JobReturn(overrides=overrides, task_name=JobRuntime.instance().get("name"))
        if ended.status in (ledger.DONE, ledger.PAUSED):
            returned.status, returned.return_value = JobStatus.COMPLETED, ended.objective
        else:
            # without a folder it was refused before there was a run
            place = self.folder / (ended.folder or f"{ledger.OUTPUT}/{ended.number}.txt")
            texts, reason = " ".join(ended.overrides), ended.reason
            if ended.status == ledger.TIMED_OUT:
                reason = f"{reason}; the same command continues it, for as long again"
            error = errors.SweepError(f"{place} ({texts}): {ended.status}: {reason}")
            returned.status, returned.return_value = JobStatus.FAILED, error
        return returned


def prepared(
    context: HydraContext, task: TaskFunction, config: DictConfig, options: Mapping[str, Any]
) -> Launcher:
    """The launcher of a sweep; the process that its jobs are forked from starts meanwhile.

    Raises: ConfigError for an invalid limit, or a program that is not Andiron's; Interrupted
    for a signal that came before.
    """
    if not (isinstance(task, Composed) and isinstance(task.task, train_run.Training)):
        why = "launches runs of train.py only; choose hydra/launcher=basic"
        raise errors.ConfigError([f"hydra/launcher=andiron: {why}"])
    task.task.signals.interrupter.begin(config.interrupted_exit_code)
    limits = violations.checked(Limits, options, prefix="hydra.launcher.")
    threads = start_clean_process(shares.threads(limits.jobs, os.environ))
    job_configs = JobConfigs(JobComposition(context.config_loader, config))
    return Launcher(context, task.task, config, job_configs, limits, threads)


def launched(
    launcher: HydraLauncher, config: DictConfig, overrides: Sequence[Sequence[str]], first: int
) -> Sequence[JobReturn]:
    """What the jobs returned that a launcher of Hydra's ran.

    Raises: SweepError naming the runs that are not done, if the launcher itself failed.
    """
    try:
        return launcher.launch(overrides, initial_job_idx=first)
    except (errors.AndironError, HydraException, OSError):
        raise
    except Exception as error:  # a process of its own was killed, or there is no such cluster
        name = config.hydra.runtime.choices["hydra/launcher"]
        folder = sweep_folder.of(config)
        runs = recorded_run.read(run_search.run_folders([folder]))
        states = [(run.path, run.facts["status"]) for run in runs]
        left = [f"{path}: {state}" for path, state in states if state != ledger.DONE]
        failed = f"hydra/launcher={name}: {errors.reason(error)}"
        raise errors.SweepError("\n".join([failed, *left])) from error


@contextmanager
def compared(folder: Path, jobs: Mapping[str, Job]) -> Iterator[None]:
    """At its end, or once it is interrupted, compares the sweep, if one of the jobs is done."""

    def compare() -> None:
        if any(job.status == ledger.DONE for job in jobs.values()):
            _compare(folder)

    try:
        yield
    except errors.Interrupted:
        with suppress(errors.SelectionError):
            compare()
        raise
    compare()


def _compare(folder: Path) -> None:
    """Writes and prints how the jobs of the sweep in the folder compare.

    Raises: SweepError if that cannot be written.
    """
    results = sweep_results.of_folder(folder)
    unwritten = results.write()
    print(results.as_text(MOST_GROUPS))
    if unwritten:
        raise errors.SweepError(unwritten)


def as_typed(folder: Path) -> str:
    """The folder as seen from the current one, if it is inside."""
    here = Path.cwd()
    return os.fspath(folder.relative_to(here) if folder.is_relative_to(here) else folder)
