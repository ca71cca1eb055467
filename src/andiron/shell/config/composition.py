"""From the command line to checked configurations: Hydra composes, `check` reports every mistake.

The task is called once with the composed run, or once for each run of a `-m` sweep.
"""

import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import ConfigCompositionException, HydraException
from hydra.types import RunMode, TaskFunction
from omegaconf import DictConfig, OmegaConf

from andiron import errors, ranges
from andiron.plain import wings
from andiron.shell.config import (
    arguments as command_arguments, config_folders, hydra_node, resolution, schema,
)  # fmt: skip
from andiron.shell.config.signatures import signature
from andiron.shell.config.trust import Trust

DATE = re.compile(r"\d{4}-\d\d-\d\d")  # the folder above a run's, in conf/hydra/output
Returned = float | list[float | None] | None  # the objective of a job, or each of several
Task = Callable[[schema.Train, Path, dict[str, str]], Returned]
Check = Callable[[DictConfig], schema.Train]


def checked_config(
    config: DictConfig, trusted: Trust | None = None, recorded: Collection[str] = ()
) -> schema.Train:
    """The composed configuration as a `Train`, its paths absolute.

    With `trusted`, it may name only what is allowed. Nothing has to use its `recorded` variables.
    Raises: ConfigError with every mistake in it.
    """
    options = resolution.checked(config, (), trusted, recorded)
    return schema.Train(**options).with_absolute_paths()


def composed(conf_dir: Path, arguments: list[str]) -> schema.Train:
    """The configuration that these arguments give, for a command that trains nothing.

    Raises: ConfigError with every mistake in them.
    """
    overrides = command_arguments.parsed(arguments).overrides
    conf_dirs = config_folders.all_dirs(conf_dir, arguments)
    command_arguments.check(arguments)
    try:
        config = config_folders.composed_by_hydra(overrides, *conf_dirs, has_hydra=True)
    except Exception as error:  # Hydra's: an assertion or a TypeError may be among them
        raise user_error(error, arguments, conf_dir) from error
    return hydra_node.apart(config, checked_config)


def unused_parts(target: str, overrides: Iterable[str]) -> list[str]:
    """A line for each override that chooses a model or a loss that the task does not take."""
    task = signature(target)
    if task is None or task.is_open_ended or target.startswith("andiron."):
        return []
    arguments = {"model": "network", "loss": "loss"}
    unused = {name: taken for name, taken in arguments.items() if taken not in task.parameters}
    return [
        f"{text}: {target} takes no {unused[group]}, so nothing would use it; leave it out, or "
        f"give its constructor an argument `{unused[group]}`"
        for text in overrides
        if (group := re.split("[.=]", text.lstrip("+"))[0]) in unused
    ]


def run(task: Task, conf_dir: Path, arguments: list[str], *, check: Check = checked_config) -> None:
    """Calls `task(config, run_dir, hydra_record)` for the composed run, or for each run of a sweep.

    `hydra_record` holds Hydra's own record of the composition, by file name. `check` turns what
    Hydra composed into the configuration. A failed run of a sweep does not stop the others.
    Raises: ConfigError with every mistake in the command line or the configuration; the error of
    a single run; SweepError for a sweep with failed runs.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises its errors instead of printing and exiting
    register_resolvers()
    config_folders.use(config_folders.all_dirs(conf_dir, arguments)[1:])
    command_arguments.check(arguments)
    as_called, sys.argv = sys.argv, [sys.argv[0], *arguments]  # Hydra reads its arguments there
    job = Composed(task, check, as_called)
    options = command_arguments.parsed(arguments)
    try:
        _call_hydra(conf_dir, arguments, job)
        if options.cfg and options.resolve and not options.multirun:  # what Hydra printed
            composed(conf_dir, arguments)
    except Exception as error:  # Hydra's: an assertion or a TypeError of its own may be among them
        if not job.failures:
            raise user_error(error, arguments, conf_dir) from error
    finally:
        sys.argv = as_called
    if len(job.failures) == 1:
        raise job.failures[0]
    if job.failures:
        raise errors.SweepError("\n".join(map(str, job.failures)))


class Composed:
    """The function that Hydra calls with each composed run.

    A launcher may call a copy of it in another process.
    """

    def __init__(self, task: Task, check: Check, command: list[str]):
        self.task = task
        self.check = check
        self.command = command  # recorded with the run
        self.process = os.getpid()
        self.failures: list[Exception] = []

    def __call__(self, config: DictConfig) -> Returned:
        """The objective of the run, for a sweeper.

        Raises: SweepError, in a sweep only: Hydra would print the error of a single run.
        """
        given, sys.argv = sys.argv, self.command
        runtime = OmegaConf.to_container(HydraConfig.get().runtime, resolve=False)
        run_dir = Path(runtime["output_dir"])  # type: ignore[call-overload, index]  # may hold ${
        try:
            try:
                with _remove_if_empty(run_dir), errors.exits_refused():
                    hydra_node.check(given)
                    return self.task(self.check(config), run_dir, _hydra_record(config))
            except errors.Interrupted as error:
                # the launcher's handler may queue the job again, or raise why it cannot
                if self.process != os.getpid():
                    signal.raise_signal(signal.Signals[str(error)])
                raise
        except Exception as error:
            traceback.clear_frames(error.__traceback__)  # they hold the model and its batches
            if HydraConfig.get().mode is RunMode.MULTIRUN:
                self.failures.append(_job_error(error, run_dir))
                raise self.failures[-1] from error
            self.failures.append(error)
            return None


def register_resolvers() -> None:
    """Registers the resolvers that conf/hydra/output uses."""
    for resolver in (name_suffix, debug_folder, sweep_folder):
        name = f"andiron.{resolver.__name__}"
        OmegaConf.register_new_resolver(name, resolver, replace=True)


def user_error(error: Exception, arguments: list[str], conf_dir: Path) -> errors.AndironError:
    """An error of Hydra, as one that says what the user can do; one of Andiron is raised."""
    if isinstance(error, errors.AndironError):  # of a job in another process, or of a launcher
        raise error
    if isinstance(error, OSError) and not isinstance(error, HydraException):
        is_sweep = command_arguments.parsed(arguments).multirun
        return errors.RunFolderError(_unmade(error, "sweep" if is_sweep else "run"))
    mistakes = wings.optional("explain.mistakes")
    lines = mistakes.explain(arguments, conf_dir, error) if mistakes else resolution.message(error)
    return errors.ConfigError(lines)


def _unmade(error: OSError, option: str) -> str:
    """Why the folder of a run or a sweep, the `option`, cannot be made or used."""
    reason = error.strerror or error
    if not error.filename:  # a pipe to a job's process, such as one that was killed
        return f"the {option} cannot go on ({reason}): a process ended before its job"
    place, remedy = os.path.abspath(error.filename), f"another place with hydra.{option}.dir=..."
    return f"{place} cannot be made ({reason}); choose {remedy}"


def _call_hydra(conf_dir: Path, arguments: list[str], job: TaskFunction) -> None:
    """Calls `job(config)` for the composed run, or for each run of a sweep.

    `hydra.main` composes every configuration twice, at first only to read `hydra.mode`, which takes
    0.1 s: it is called for flags, and for a sweep without one, since a file sets
    hydra.mode=MULTIRUN.
    """
    overrides = command_arguments.parsed(arguments).overrides
    if len(overrides) == len(arguments):
        with hydra.initialize_config_dir(str(conf_dir), job_name="train", version_base="1.3"):
            instance: Any = GlobalHydra.instance().hydra
            with suppress(AssertionError, ConfigCompositionException):  # before the job
                instance.run("train", job, overrides)
                return
    hydra.main(version_base="1.3", config_path=str(conf_dir), config_name="train")(job)()


def name_suffix(name: object) -> str:
    """The suffix of a run's folder name, for conf/hydra/output; empty for an invalid name.

    >>> name_suffix("baseline"), name_suffix(None), name_suffix("../else")
    ('-baseline', '', '')
    """
    return f"-{name}" if ranges.RUN_NAME.fullmatch(str(name or "")) else ""


def sweep_folder(name: object, otherwise: str) -> str:
    """The folder of a sweep below multirun/: its name, if it has one."""
    return str(name) if ranges.RUN_NAME.fullmatch(str(name or "")) else otherwise


def debug_folder(debug: object) -> str:
    """The folder above the date of a run with debug=true, for conf/hydra/output."""
    return "debug/" if debug is True else ""


@contextmanager
def _remove_if_empty(run_dir: Path) -> Iterator[None]:
    """After an error, removes the folder that Hydra made, and that of its date, if empty."""
    try:
        yield
    except BaseException:
        date = [run_dir.parent] if DATE.fullmatch(run_dir.parent.name) else []
        for folder in (run_dir, *date):
            with suppress(OSError):
                folder.rmdir()
        raise


def _job_error(error: Exception, run_dir: Path) -> errors.SweepError:
    """The error of one run of a sweep, with the folder and the overrides of that run."""
    overrides = " ".join(map(str, HydraConfig.get().overrides.task))
    kind = errors.DivergedError if isinstance(error, errors.NonFiniteError) else errors.SweepError
    return kind(f"{run_dir} ({overrides}): {errors.reason(error)}")


def _hydra_record(config: DictConfig) -> dict[str, str]:
    hydra_config = HydraConfig.get()
    return {
        "config.yaml": OmegaConf.to_yaml(config),
        "hydra.yaml": OmegaConf.to_yaml(OmegaConf.create({"hydra": hydra_config})),
        "overrides.yaml": OmegaConf.to_yaml(hydra_config.overrides.task),
    }
