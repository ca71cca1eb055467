"""One job of a sweep, run in its own forked process."""

import logging
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hydra import version
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.utils import JobReturn, JobRuntime, run_job, setup_globals
from hydra.types import HydraContext
from omegaconf import DictConfig, open_dict

from andiron import errors
from andiron.interrupter import Interrupter
from andiron.plain import improvement, readable
from andiron.plain.states import State
from andiron.run_folder import RunFolder
from andiron.shell.cli import answers, command_line, signals, streams
from andiron.shell.cli.signals import Signals
from andiron.shell.config import composition, schema
from andiron.shell.config.schema import Train
from andiron.shell.config.trust import Trust
from andiron.shell.run import resume_policy, run_record, status
from andiron.shell.run.log_file import is_held
from andiron.shell.training import train_run
from andiron.wings.sweep import sweep_folder
from andiron.wings.sweep.ledger import Job

SECONDS_FOR_LOCK = 90  # a job of a killed sweep may still be saving the state of its run
Reply = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Request:
    """A job to run, and its sweep as Hydra has set it up."""

    job: Job
    hydra: GlobalHydra
    hydra_context: HydraContext
    sweep: DictConfig
    check: composition.Check
    command: list[str]  # repeats the job alone


class _Warnings(logging.Handler):
    """Replies with the warnings of the job, by their texts without values: the first of each."""

    def __init__(self, reply: Reply):
        super().__init__(logging.WARNING)
        self._reply = reply
        # errors are in the reason of the job's end
        self.addFilter(lambda record: record.levelno < logging.ERROR)
        self._messages = dict[str, str]()

    def emit(self, record: logging.LogRecord) -> None:
        """Replies with this warning too, unless one of its kind has been sent."""
        if (kind := str(record.msg)) not in self._messages:
            self._messages[kind] = readable.shortened(self.format(record), 1000)
            self._reply({"warnings": self._messages})


def run_request(request: Request, reply: Reply) -> int:
    """Runs the job as Hydra's `run_job` does; returns the exit code of the process.

    Replies with the folder of the run, and its objective or else its status; the reason of it; and
    its warnings.
    """
    job_signals = Signals(Interrupter(request.job.pause_at), until_exit=True)
    command_line.show_log()
    logging.getLogger("andiron").addHandler(_Warnings(reply))
    with streams.safe_streams(), answers.given_to(None):
        try:
            with signals.installed(job_signals):
                reply({"objective": _run_job(request, job_signals, reply).return_value})
        except KeyboardInterrupt as error:
            message = "; ".join(["interrupted", *signals.outcome(error)])
            print(message, file=sys.stderr)
            reply({"status": State.INTERRUPTED, "reason": message})
            return signals.exit_code(error)
        except Exception as error:
            return _report_failure(error.__cause__ or error, reply)
        return 0


def _report_failure(error: BaseException, reply: Reply) -> int:
    """Reports the failure to the job's log and to the sweep; returns the exit code."""
    if isinstance(error, errors.AndironError):
        print(f"error: {error}", file=sys.stderr)
        state = State.DIVERGED if isinstance(error, errors.NonFiniteError) else State.FAILED
        problems = error.problems if isinstance(error, errors.ConfigError) else [str(error)]
        reply({"status": state, "reason": "; ".join(problems)})
        return signals.exit_code(error)
    traceback.print_exception(error)
    reply({"reason": errors.reason(error)})
    return signals.EXIT_FAILED


def composed(sweep: DictConfig, overrides: Sequence[str], loader: ConfigLoader) -> DictConfig:
    """The job of a sweep with these overrides, as Hydra composes it.

    Raises: ConfigError if it cannot be composed.
    """
    try:
        return loader.load_sweep_config(sweep, list(overrides))
    except Exception as error:  # Hydra raises even AssertionError and TypeError
        raise errors.ConfigError(str(error)) from error


def _composed(request: Request) -> DictConfig:
    """The job as Hydra composes and numbers it, in a process that Hydra has not set up yet."""
    version.setbase("1.3")
    setup_globals()
    GlobalHydra.set_instance(request.hydra)  # a fork is checked by more compositions
    composition.register_resolvers()
    loader = request.hydra_context.config_loader
    config = composed(request.sweep, request.job.arguments, loader)
    JobRuntime.instance().set("name", config.hydra.job.name)
    with open_dict(config):
        config.hydra.job.id = config.hydra.job.num = request.job.number
    sweep_folder.check_subdir(config)
    return config


def _run_job(request: Request, job_signals: Signals, reply: Reply) -> JobReturn:
    config = _composed(request)

    def train_job(config: Train, run_dir: Path, record: dict[str, str]) -> composition.Returned:
        folder = RunFolder(run_dir)
        _wait_for_lock(folder)
        resumes = _holds_run_of_job(folder, request.job, config)
        reply({"folder": str(run_dir)})
        train = train_run.Training(["-m"], job_signals, resumes)
        try:
            return train(config, run_dir, record)
        except errors.Paused as error:
            reply({"status": State.PAUSED, "reason": str(error)})
            return _objective_so_far(config, folder)

    return run_job(
        hydra_context=request.hydra_context,
        task_function=composition.Composed(train_job, request.check, request.command),
        config=config,
        job_dir_key="hydra.sweep.dir",
        job_subdir_key="hydra.sweep.subdir",
    )


def _objective_so_far(config: Train, folder: RunFolder) -> composition.Returned:
    from andiron.wings.runs import run_list  # few runs pause
    from andiron.wings.sweep import objectives

    directions = {
        improvement.split_and_metric(goal.name)[1]: goal.direction
        for goal in objectives.objectives(asdict(config))
    }
    return run_list.objectives(folder, config.objective, directions)


def _holds_run_of_job(folder: RunFolder, job: Job, config: Train) -> bool:
    """Whether the folder holds the job's run: the run in the ledger, or one with the job's options.

    Raises: RunFolderError if it holds another run.
    """
    if not run_record.holds_run(folder) or status.is_untrained(folder):
        return False
    if config.overwrite and not job.rungs:
        return False
    is_own = run_record.holds_run(folder, job.run) if job.run else job.starts > 0
    if is_own or _has_options(folder, config):
        return True
    raise errors.RunFolderError(
        f"{folder.path}: holds a run that is not of this job; nothing there was changed; "
        "move it away, or choose another sweep_name"
    )


def _has_options(folder: RunFolder, config: Train) -> bool:
    plain = asdict(config)
    try:
        recorded = run_record.config(folder, Trust(tuple(config.trust)).with_config(plain))
    except errors.AndironError:
        return False
    changed = resume_policy.changes(asdict(recorded), plain)
    return all(path[0] in schema.APART for path in changed)


def _wait_for_lock(folder: RunFolder) -> None:
    """Waits for a job of an earlier sweep, which exits once it has saved the run's state."""
    deadline = time.monotonic() + SECONDS_FOR_LOCK
    while is_held(folder.log) and time.monotonic() < deadline:
        time.sleep(0.1)
