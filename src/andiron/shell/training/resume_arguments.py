"""`resume=` and `fork_from=` on a command line: the run that they name, and its configuration."""

import os
import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from andiron import errors
from andiron.run_folder import RunFolder
from andiron.shell.config import (
    arguments as command_arguments,
    composition,
    diagnosis,
    leaves,
    project,
    quoting,
    resolution,
    schema,
    trust,
)
from andiron.shell.config.composition import Check
from andiron.shell.config.flags import ONE_RUN
from andiron.shell.config.schema import Train
from andiron.shell.config.trust import Trust
from andiron.shell.run import (
    claim, hydra_overrides, lab_options, named_folder, resume_policy, run_record,
)  # fmt: skip
from andiron.shell.run.hydra_overrides import key_of, without

FOLDER_OPTIONS = ("hydra.run.dir=", "hydra.sweep.dir=")


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
    if values.get("resume") not in (None, "auto"):
        _resume(task, conf_dir, arguments, values)
    elif values.get("fork_from") is not None:
        lab_options.forks("fork_command").run(task, conf_dir, arguments, values)
    else:
        composition.run(task, conf_dir, arguments, check=checked_start)


def _resume(
    task: Callable[..., Any], conf_dir: Path, arguments: list[str], values: dict[str, Any]
) -> None:
    conf_dirs, packages = diagnosis.all_dirs(conf_dir, arguments), trusted_packages(values)
    given, flags = divided(arguments)
    folder = _named_folder(values, arguments)
    overrides = without(given, *schema.INSTRUCTIONS, "hydra.run.dir")
    trusted, remedy = trust.of_user(conf_dirs, packages, arguments), ""
    if is_composed := bool(flags or overrides):
        trusted, remedy = with_config_dir(trusted, str(folder.path), conf_dirs)
    allowed, overwrite = _strings(values, "resume_allow"), bool(values.get("overwrite"))
    record = run_record.config(folder, trusted)
    check_mirror(record, values)
    config = replace(
        record,
        resume=str(folder.path), resume_allow=allowed, overwrite=overwrite, trust=packages,
    )  # fmt: skip
    task = partial(task, trusted=trusted)
    if not is_composed:  # the record alone, however conf/ has changed
        task(config, folder.path, {})
        return
    run_dir = quoting.override("hydra.run.dir", folder.path)
    recorded = hydra_overrides.recorded(folder, conf_dirs, remedy)
    check = Inherited(asdict(config), recorded, overrides, trusted)
    composition.run(task, conf_dir, [*check.overrides(), run_dir, ONE_RUN, *flags], check=check)


def check_mirror(record: Train, values: dict[str, Any]) -> None:
    """Refuses to send checkpoints to an address that only a run folder gives."""
    option = "checkpoint.mirror"
    mirror = (record.checkpoint or {}).get("mirror")
    if mirror not in (None, values.get("resume")) and option not in values:
        raise errors.ConfigError(
            [
                f"{option}={mirror}: recorded in a run folder, which is not trusted with an "
                f"address to send checkpoints to; give {quoting.typed(option, mirror)} here, or "
                f"{option}=null"
            ]
        )


def with_config_dir(trusted: Trust, run: str, conf_dirs: list[Path]) -> tuple[Trust, str]:
    """The trust, and a remedy for choices, that name the folder from which a run was composed.

    `run` is its folder, or one with a checkpoint as `fork_from` names it.
    """
    place = run if os.path.isdir(run) else run.rpartition("@")[0]
    own = hydra_overrides.config_dir(RunFolder(Path(place)))
    if own is None or own in conf_dirs:
        return trusted, hydra_overrides.ALONE
    flag = f"--config-dir {shlex.quote(str(own))}"
    remedy = f"give {flag} too, from which the run was composed"
    return replace(trusted, spelling=f"{flag} {trusted.spelling}"), remedy


@dataclass(frozen=True)
class Inherited:
    """The check of a run that has the configuration of a recorded one, or of itself, and changes.

    `recorded` are its overrides, `own` the given ones. It may name what is `trusted`.
    """

    config: dict[str, Any]
    recorded: list[str]
    own: list[str]
    trusted: Trust

    def overrides(self) -> list[str]:
        """The recorded overrides, without those that others replace, and the others."""
        added = {key_of(text) for text in self.recorded if text[0] == "+"}
        own = [
            f"+{text}" if key_of(text) in added and text[0] not in "+~" else text
            for text in self.own
        ]
        return [*without(self.recorded, *map(key_of, self.own)), *own]

    def _as_recorded(self, composed: DictConfig) -> DictConfig:
        """The recorded overrides on today's conf/, with the recorded values of what is given."""
        before = hydra.compose("train", overrides=self.recorded)
        keys = {key_of(text) for text in self.own}
        for path, value in leaves.leaves(self.config):
            *above, name = (".".join(path[:length]) for length in range(1, len(path) + 1))
            if name in keys or not keys.isdisjoint(above) and not _follows(composed, path):
                OmegaConf.update(before, name, value, force_add=True)
        return before

    def __call__(self, composed: DictConfig) -> Train:
        """The configuration with the changes of the overrides, without changes in conf/.

        Raises: ConfigError with every mistake.
        """
        composition.checked_config(composed, self.trusted)
        before = resolution.plain(self._as_recorded(composed))
        own = resume_policy.changes(before, resolution.plain(composed))
        plain = resume_policy.applied(self.config, own)
        if problems := schema.problems(plain):
            raise errors.ConfigError(problems.values())
        return Train(**plain).with_absolute_paths()


def _follows(composed: DictConfig, path: leaves.Path) -> bool:
    """Whether an option has the value of another, such as the rate of a schedule."""
    node = OmegaConf.select(composed, ".".join(path[:-1]))
    is_known = OmegaConf.is_dict(node) and path[-1] in node
    return is_known and OmegaConf.is_interpolation(node, path[-1])


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


def _named_folder(values: dict[str, Any], arguments: list[str]) -> RunFolder:
    """The folder of the run that `resume` names."""
    target = values["resume"]
    if command_arguments.parsed(arguments).multirun:
        raise errors.ConfigError(
            [
                f"resume={target}: resumes one run; leave -m out, or give resume=auto, which "
                "resumes each run of a sweep"
            ]
        )
    run_dir = values.get("hydra.run.dir")
    is_latest = target == named_folder.LATEST
    path = named_folder.newest() if is_latest else named_folder.absolute(str(target), run_dir)
    if run_dir is not None and os.path.abspath(str(run_dir)) != str(path):
        raise errors.ConfigError(
            [f"hydra.run.dir={run_dir}: a resumed run stays in its folder, {path}; leave it out"]
        )
    claim.settle(RunFolder(path))
    return named_folder.run_folder_of(path)


def divided(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The overrides, and the flags, which come last."""
    overrides = command_arguments.parsed(arguments).overrides
    return overrides, arguments[len(overrides) :]


def trusted_packages(values: dict[str, Any]) -> list[str]:
    """The packages that the command and the project trust."""
    return [*_strings(values, "trust"), *project.current().trust]


def _strings(values: dict[str, Any], option: str) -> list[str]:
    value = values.get(option) or []
    return list(map(str, value if isinstance(value, list) else [value]))
