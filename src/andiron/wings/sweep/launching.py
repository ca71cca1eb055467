"""Launches the jobs of a sweep that are not done in the ledger, each in its own process."""

import gc
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException
from hydra.plugins.launcher import Launcher as HydraLauncher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from andiron import errors
from andiron.plain import readable
from andiron.plain.states import State
from andiron.shell.cli import answers
from andiron.shell.config import (
    arguments as command_arguments, composition, hydra_node, violations,
)  # fmt: skip
from andiron.shell.training import train_run
from andiron.wings.runs import run_list
from andiron.wings.sweep import ledger, objectives, shares, sweep_folder, sweep_results
from andiron.wings.sweep.job import Request, composed, run_request
from andiron.wings.sweep.job_process import JobProcess, start_clean_process
from andiron.wings.sweep.job_lines import JobLines
from andiron.wings.sweep.ledger import Job, Ledger, Sweep
from andiron.wings.sweep.scheduling import FixedJobs, JobScheduler, JobSource, Limits

MOST_GROUPS = 20  # rows of the final table
MakeSource = Callable[[Iterable[Job]], JobSource]


@dataclass(frozen=True)
class Launcher:
    """Launches the jobs of a sweep that Hydra has set up."""

    context: HydraContext
    training: train_run.Training
    config: DictConfig
    check: composition.Check
    limits: Limits
    threads: str | None  # of each job; None: as for a single run

    @property
    def folder(self) -> Path:
        """The sweep's folder."""
        return sweep_folder.of(self.config)

    @property
    def metric(self) -> str | None:
        """The metric by which jobs are compared."""
        return next(iter(objectives.names_of(self.config)), None)

    def launch(self, overrides: Sequence[Sequence[str]], first: int) -> list[JobReturn]:
        """Runs the jobs that are not done; returns the results of all, in the order of `overrides`.

        Raises: as `train`.
        """
        return list(map(self._job_return, self.train(overrides, first)))

    def train(
        self,
        overrides: Sequence[Sequence[str]],
        first: int,
        make_source: MakeSource = FixedJobs,
        settled_statuses: Collection[str] = (),
    ) -> list[Job]:
        """Runs the jobs from `make_source(jobs)`; returns each with its outcome, in order.

        A job whose status in the ledger is done, or in `settled_statuses`, is not run again.
        Raises: ConfigError for a problem that all share; and as `run`.
        """
        if len(overrides) > 1 and not self._environment(place=0):
            self._check_first_and_last(overrides)
        known = ledger.read(self.folder)  # before locking: closing a file releases its lock
        jobs = known.numbered(overrides, first)
        by_identity = {job.identity: self._job_to_run(known, job, settled_statuses) for job in jobs}
        unique = list(by_identity.values())
        with closing(Ledger(self.folder)) as book:
            book.add("sweep", command=sys.argv, objective=self.metric)
            for job in unique:
                if job.identity not in known.jobs:
                    book.plan(job)
            self.announce(f"{len(unique)} jobs" if len(unique) != 1 else "1 job")
            if done := sum(job.status == State.DONE for job in unique):
                print(f"{done} of {len(unique)} jobs are done already", flush=True)
            lines = JobLines(unique, self.metric, as_typed(self.folder))
            by_identity |= self.run(book, make_source(unique), lines.job_ended)
        return [by_identity[job.identity] for job in jobs]

    def _check_first_and_last(self, overrides: Sequence[Sequence[str]]) -> None:
        """Raises: ConfigError for the problems that both jobs have."""
        of_last = self._problems(overrides[-1])
        if shared := [text for text in self._problems(overrides[0]) if text in of_last]:
            raise errors.ConfigError(shared)

    def _problems(self, overrides: Sequence[str]) -> Sequence[str]:
        """The problems of the job with these overrides."""
        try:
            job = composed(self.config, overrides, self.context.config_loader)
            hydra_node.apart(job, self.check)
        except errors.ConfigError as error:
            return error.problems
        except errors.AndironError as error:
            return [str(error)]
        return []

    def _environment(self, place: int) -> dict[str, str]:
        """The environment variables that the job at `place` does not share with the sweep."""
        gpus = shares.visible_gpus(os.environ)
        return shares.environment_of(place, gpus=gpus, sharing=self.limits.jobs)

    def _job_to_run(self, known: Sweep, job: Job, settled_statuses: Collection[str]) -> Job:
        """The job to schedule, without a status unless it is done or settled."""
        if self.config.overwrite:
            new = Job(job.identity, job.number, job.overrides, threads=self.threads)
            return replace(new, arguments=job.arguments)
        job = known.current(job)
        folder = known.run_of(job)
        if folder is not None and job.status == State.DONE:
            return replace(job, objective=run_list.objective(folder, self.metric))
        status = job.status if job.status in settled_statuses else None
        return replace(job, status=status, pause_at=None, threads=self.threads)

    def announce(self, number: str) -> None:
        """Prints how many jobs the sweep has, how many run at a time, and its folder."""
        line = f"{number}, {self.limits.jobs} at a time, in {as_typed(self.folder)}"
        print(readable.printable(line), flush=True)

    def run(self, book: Ledger, source: JobSource, show: Callable[[Job], None]) -> dict[str, Job]:
        """Runs the jobs of `source`, shows those that end; returns them by identity.

        At the end, also of an interrupted sweep, compares the jobs if one is done.
        Raises: Interrupted once running jobs have saved their state.
        """
        interrupter = self.training.signals.interrupter
        gc.enable()  # each job leaves a configuration of 1 MB as garbage
        try:
            with interrupter.held_back():
                scheduler = JobScheduler(self._start, self.limits, book, self.folder, show)
                ended = scheduler.run(source, interrupter)
        except errors.Interrupted as error:
            jobs = ledger.read(self.folder).jobs.values()
            number = sum(job.status == State.DONE for job in jobs)
            is_named = self.config.sweep_name is not None
            place = "" if is_named else f" with hydra.sweep.dir={as_typed(self.folder)}"
            error.add(f"{number} jobs are done; the same command{place} continues the others")
            with suppress(errors.SelectionError):
                self._compare(source)
            raise
        self._compare(source)
        return ended

    def _start(self, job: Job, place: int) -> JobProcess:
        environment = self._environment(place)
        threads = {} if self.threads is None else {shares.THREADS: self.threads}
        flags = command_arguments.of_the_configuration(self.training.arguments)
        request = Request(
            job,
            hydra=GlobalHydra.instance(),
            hydra_context=self.context,
            sweep=self.config,
            check=self.check,
            command=[sys.argv[0], *job.overrides, *flags],
        )
        output = self.folder / ledger.OUTPUT / f"{job.number}.txt"
        return JobProcess(run_request, request, output, {**os.environ, **threads, **environment})

    def _compare(self, source: JobSource) -> None:
        """Prints the results of the sweep if one of its jobs is done."""
        results = sweep_results.of_folder(self.folder)
        if not answers.give(results.plain() | source.result()) and results.rows:
            print(results.as_text(MOST_GROUPS))

    def failures(self, jobs: Iterable[Job]) -> list[Exception]:
        """The errors of failed jobs; a pruned or diverged job is a bad trial, not a failure."""
        return [self._error_of(job) for job in jobs if job.status and job.status.is_failure]

    def _job_return(self, job: Job) -> JobReturn:
        """The result of a job, as Hydra's sweepers expect it."""
        is_done = job.status in (State.DONE, State.PAUSED)
        return JobReturn(
            job.arguments,
            status=JobStatus.COMPLETED if is_done else JobStatus.FAILED,
            _return_value=job.objective if is_done else self._error_of(job),
        )

    def _error_of(self, job: Job) -> errors.SweepError:
        # without a folder, the job was refused before its run began
        place = self.folder / (job.folder or f"{ledger.OUTPUT}/{job.number}.txt")
        texts, reason = " ".join(job.overrides), job.reason
        if job.status == State.TIMED_OUT:
            reason = f"{reason}; the same command continues it, for as long again"
        return errors.SweepError(f"{place} ({texts}): {job.status}: {reason}")


def prepare(
    context: HydraContext, task: TaskFunction, config: DictConfig, options: Mapping[str, object]
) -> Launcher:
    """The launcher of a sweep; starts the process that its jobs are forked from.

    Raises: ConfigError for an invalid limit, or a task other than train.py; Interrupted for a
    signal that came before.
    """
    if not (isinstance(task, composition.Composed) and isinstance(task.task, train_run.Training)):
        why = "launches runs of train.py only; choose hydra/launcher=basic"
        raise errors.ConfigError(f"hydra/launcher=andiron: {why}")
    task.task.signals.interrupter.begin(config.interrupted_exit_code)
    limits = violations.checked(Limits, options, prefix="hydra.launcher.")
    threads = start_clean_process(shares.threads(limits.jobs, os.environ))
    return Launcher(context, task.task, config, task.check, limits, threads)


@dataclass(frozen=True)
class HydraSweep:
    """A sweep that Hydra has set up, with any launcher."""

    loader: ConfigLoader
    config: DictConfig
    launcher: HydraLauncher

    def compose(self, overrides: Sequence[str]) -> DictConfig:
        """The job with these overrides as Hydra composes it."""
        return self.loader.load_sweep_config(self.config, list(overrides))

    def launch(self, overrides: Sequence[Sequence[str]], first: int) -> list[object]:
        """Runs jobs; returns the result or the error of each.

        Raises: SweepError if the launcher itself fails.
        """
        try:
            results = self.launcher.launch(overrides, initial_job_idx=first)
            # the public `return_value` of a failed job prints its overrides and raises the error
            return [job._return_value for job in results]
        except (errors.AndironError, HydraException, OSError):
            raise
        except Exception as error:  # such as a killed worker process, or an unknown cluster
            name = self.config.hydra.runtime.choices["hydra/launcher"]
            raise errors.SweepError(f"hydra/launcher={name}: {errors.reason(error)}") from error


def as_typed(folder: Path) -> str:
    """The folder, relative to the current one if inside it."""
    relative = os.path.relpath(folder)
    return os.fspath(folder) if relative.startswith(os.pardir) else relative
