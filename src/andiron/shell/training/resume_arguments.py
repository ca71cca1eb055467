"""`resume=` and `fork_from=` on a command line: the run that they name, and its configuration."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from andiron import errors
from andiron.plain.plain_values import Plain
from andiron.run_folder import RunFolder
from andiron.shell.cli import command_line
from andiron.shell.cli.signals import Signals
from andiron.shell.config import (
    arguments as command_arguments,
    composition,
    config_folders,
    flags,
    project,
    schema,
    trust,
)
from andiron.shell.config.composition import Check
from andiron.shell.config.schema import Train
from andiron.shell.run import (
    changed_options, claim, lab_options, named_folder, run_record,
)  # fmt: skip
from andiron.shell.run.changed_options import key_of, without
from andiron.shell.training.train_run import Share, Training

FOLDER_OPTIONS = ("hydra.run.dir=", "hydra.sweep.dir=")


def train(
    arguments: list[str], conf_dir: Path | None, signals: Signals, share: Share | None = None
) -> None:
    """Trains the run of a command line, or each run of a sweep; raises as `run`."""
    task = Training(arguments, signals, share=share)
    command_line.main(task, conf_dir, arguments, signals=signals, run=run)


def run(task: Callable[..., Any], conf_dir: Path, arguments: list[str]) -> None:
    """Like `composition.run`; with `resume=<run folder>`, the configuration in that folder is used.

    The task then also gets `trusted`: what the configuration may name. With `fork_from`, runs have
    the options of the run that it names, and the changes.
    Raises: as `composition.run`; ConfigError for a sweep of resumed runs; RunFolderError if there
    is no such run, or its record is damaged.
    """
    values = command_arguments.values(arguments)
    for option in ("checkpoint.mirror", "start_from"):  # before they stand in a record
        if "://" in str(values.get(option)):
            named_folder.mirror().check(option, str(values[option]))
    is_named = values.get("resume") not in (None, "auto")
    if is_named and flags.prints_only(arguments, ("-c", "--cfg")):
        what = "prints the options of conf/; a run has its own in config.json"
        raise errors.ConfigError(f"--cfg: {what}; leave resume out")
    if is_named and not flags.prints_only(arguments):
        _resume(task, conf_dir, arguments, values)
    elif values.get("fork_from") is not None:
        command = lab_options.module("forks.fork_command", "fork_from")
        command.run(task, conf_dir, arguments, values)
    else:
        composition.run(task, conf_dir, arguments, check=checked_start)


def _resume(task: Callable[..., Any], conf_dir: Path, arguments: list[str], values: Plain) -> None:
    command_arguments.check(arguments)
    conf_dirs, packages = config_folders.all_dirs(conf_dir, arguments), trusted_packages(values)
    folder = _named_folder(values, arguments)
    given = command_arguments.parsed(arguments).overrides
    overrides = without(given, *schema.INSTRUCTIONS, "hydra")
    trusted = trust.of_user(conf_dirs, packages, arguments)
    record = config = run_record.config(folder, trusted)
    check_mirror(record, values)
    hydra_record: dict[str, str] = {}
    if overrides:
        try:
            changed, hydra_record = changed_options.changed(record, folder, overrides, conf_dirs)
            kept = without([*record.variables], *map(key_of, overrides))
            config = composition.checked_config(changed, trusted, kept)
        except Exception as error:  # Hydra's: an assertion or a TypeError of its own may be there
            raise composition.user_error(error, arguments, conf_dir) from error
    allowed, overwrite = _strings(values, "resume_allow"), bool(values.get("overwrite"))
    config = replace(
        config,
        resume=str(folder.path), resume_allow=allowed, overwrite=overwrite, trust=packages,
    )  # fmt: skip
    task(config, folder.path, hydra_record, trusted=trusted)


def check_mirror(record: Train, values: Plain) -> None:
    """Refuses to send checkpoints to an address that only a run folder gives."""
    if (checkpoint := record.checkpoint or {}).get("mirror") is not None:
        named_folder.mirror().check_recorded(checkpoint, values)


def checked_start(config: DictConfig, check: Check = composition.checked_config) -> Train:
    """The composed configuration; `resume=auto` needs a folder that is the same at every start.

    `check` gives the checked configuration.

    Raises: ConfigError with every mistake.
    """
    checked, chosen = check(config), HydraConfig.get().overrides
    problems = composition.unused_parts(str(checked.task["_target_"]), chosen.task)
    if checked.fork_from is not None and check is composition.checked_config:
        given = f"fork_from={checked.fork_from}"
        problems += [f"{given}: give it on the command line of train.py, not in a file"]
    elif checked.resume is None and checked.fork_from is None and checked.resume_allow:
        allowed = ",".join(checked.resume_allow)
        problems += [
            f"resume_allow=[{allowed}]: allows changes to a resumed run, and none is resumed; "
            "name it with resume=<run folder>, or leave resume_allow out"
        ]
    has_folder = checked.sweep_name is not None or any(
        text.startswith(FOLDER_OPTIONS) for text in chosen.hydra
    )
    if checked.debug and (has_folder or checked.resume is not None or checked.fork_from):
        problems += [
            "debug=true: makes runs of its own below outputs/debug; leave hydra.run.dir, "
            "hydra.sweep.dir, resume, fork_from and restart out"
        ]
    elif checked.resume == "auto" and not has_folder:
        problems += [
            "resume=auto: without a fixed folder every start would be a new run; give "
            "hydra.run.dir=<folder> too, the same each time, or hydra.sweep.dir for a sweep"
        ]
    if problems:
        raise errors.ConfigError(problems)
    return checked


def _named_folder(values: Plain, arguments: list[str]) -> RunFolder:
    """The folder of the run that `resume` names."""
    target = values["resume"]
    if command_arguments.parsed(arguments).multirun:
        raise errors.ConfigError(
            f"resume={target}: resumes one run; leave -m out, or give resume=auto, which "
            "resumes each run of a sweep"
        )
    run_dir = values.get("hydra.run.dir")
    is_latest = target == named_folder.LATEST
    path = named_folder.newest() if is_latest else named_folder.absolute(str(target), run_dir)
    if run_dir is not None and os.path.abspath(str(run_dir)) != str(path):
        raise errors.ConfigError(
            f"hydra.run.dir={run_dir}: a resumed run stays in its folder, {path}; leave it out"
        )
    claim.settle(RunFolder(path))
    return named_folder.run_folder_of(path)


def trusted_packages(values: Plain) -> list[str]:
    """The packages that the command and the project trust."""
    return [*_strings(values, "trust"), *project.current().trust]


def _strings(values: Plain, option: str) -> list[str]:
    value = values.get(option) or []
    return list(map(str, value if isinstance(value, list) else [value]))
