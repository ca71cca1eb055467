"""One job of a sweep, in the process that the sweep forked for it."""

import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hydra import version
from hydra.core.utils import JobReturn, JobRuntime, run_job, setup_globals
from hydra.types import HydraContext
from omegaconf import DictConfig, open_dict

from andiron import errors
from andiron.cli import command_line, signals, streams
from andiron.cli.signals import Signals
from andiron.config import composition, schema
from andiron.config.schema import Train
from andiron.config.trust import Trust
from andiron.interrupter import Interrupter
from andiron.plain import improvement
from andiron.run import resume_arguments, resume_policy, run_record
from andiron.run.log_file import is_held
from andiron.run_folder import RunFolder
from andiron.sweep import sweep_folder
from andiron.training import train_run

SECONDS_FOR_ANOTHER = 90  # that trains the run: of a sweep that was killed, it saves its state
Reply = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Request:
    """What to run: Hydra's view of the sweep, and the overrides of the job."""

    hydra_context: HydraContext
    config: DictConfig  # of the sweep, or of the job where that is composed
    is_composed: bool
    checked: Train | None  # the configuration of the job, where that is known
    task_name: str
    overrides: list[str]
    number: int
    arguments: list[str]  # of the sweep
    command: list[str]  # that repeats the job alone
    is_known: bool  # to the ledger, as a job whose run is continued
    run: str | None  # the identity of its run, if the ledger has it
    pause_at: int | None = None  # epochs or updates, as the length of the run is given


def run(request: Request, reply: Reply) -> int:
    """Runs the job as Hydra's `run_job` does; the exit code of the process.

    Replies with the folder of the run, and at the end with the objective, that of a run that
    pauses after why, or with an error.
    """
    heard = Signals(Interrupter(request.pause_at), until_exit=True)
    command_line.show_log()
    with streams.lasting():
        try:
            with signals.heard(heard):
                reply({"objective": _returned(request, heard, reply).return_value})
        except KeyboardInterrupt as error:
            words = "; ".join(["interrupted", *signals.outcome(error)])
            print(words, file=sys.stderr)
            reply({"interrupted": words})
            return signals.exit_code(error)
        except Exception as error:
            return _failed(error.__cause__ or error, reply)
        return 0


def _failed(error: BaseException, reply: Reply) -> int:
    """Tells why the job failed: to its own log, and to the sweep."""
    if isinstance(error, errors.AndironError):
        print(f"error: {error}", file=sys.stderr)
        name = "diverged" if isinstance(error, errors.NonFiniteError) else "error"
        problems = error.problems if isinstance(error, errors.ConfigError) else [str(error)]
        reply({name: "; ".join(problems)})
        return command_line.exit_code_of(error)
    traceback.print_exception(error)
    reply({"error": errors.reason(error)})
    return command_line.EXIT_FAILED


def _returned(request: Request, heard: Signals, reply: Reply) -> JobReturn:
    version.setbase("1.3")
    setup_globals()
    composition.register_resolvers()
    JobRuntime.instance().set("name", request.task_name)
    config = request.config
    if not request.is_composed:
        loader = request.hydra_context.config_loader
        config = loader.load_sweep_config(config, request.overrides)
    with open_dict(config):
        config.hydra.job.id = config.hydra.job.num = request.number
    sweep_folder.check_subdir(config)

    def trained(config: Train, run_dir: Path, record: dict[str, str]) -> composition.Returned:
        _wait_for_another(RunFolder(run_dir))
        resumes = _is_in(RunFolder(run_dir), request, config)
        reply({"folder": str(run_dir)})
        train = train_run.Training(request.arguments, heard, resumes)
        try:
            return train(config, run_dir, record)
        except errors.Paused as error:
            reply({"paused": str(error)})
            return _objective_so_far(config, RunFolder(run_dir))

    checked = partial(resume_arguments.checked_start, known=request.checked)
    return run_job(
        hydra_context=request.hydra_context,
        task_function=composition.Composed(trained, checked, request.command),
        config=config,
        job_dir_key="hydra.sweep.dir",
        job_subdir_key="hydra.sweep.subdir",
    )


def _objective_so_far(config: Train, folder: RunFolder) -> composition.Returned:
    from andiron.comparison import objective  # few runs pause
    from andiron.sweep.search import objectives

    sought = objectives.objectives(asdict(config))
    known = {improvement.split_and_metric(each.name)[1]: each.direction for each in sought}
    return objective.values(folder, config.objective, known)


def _is_in(folder: RunFolder, request: Request, config: Train) -> bool:
    """Whether the folder holds the run of the job: the run that the ledger names, or one with the
    options of the job.

    Raises: RunFolderError if it holds another run.
    """
    if not run_record.holds_run(folder) or (config.overwrite and not request.is_known):
        return False
    is_own = run_record.identity(folder) == request.run if request.run else request.is_known
    if is_own or _has_options(folder, config):
        return True
    raise errors.RunFolderError(
        f"{folder.path}: holds another run than that of this job, and nothing there was changed; "
        "move it away, or choose another sweep_name"
    )


def _has_options(folder: RunFolder, config: Train) -> bool:
    plain = asdict(config)
    try:
        recorded = run_record.config(folder, Trust(tuple(config.trust)).saying(plain))
    except errors.AndironError:
        return False
    changed = resume_policy.changes(asdict(recorded), plain)
    return all(path[0] in schema.APART for path in changed)


def _wait_for_another(folder: RunFolder) -> None:
    """Waits for the process of an earlier sweep, which ends when it has saved the run's state."""
    deadline = time.monotonic() + SECONDS_FOR_ANOTHER
    while is_held(folder.log) and time.monotonic() < deadline:
        time.sleep(0.1)
