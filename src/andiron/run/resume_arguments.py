"""The run that `resume=` names on a command line, and what its folder tells of it."""

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
import yaml
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from andiron import errors, files
from andiron.config import composition, diagnosis, schema
from andiron.config.schema import Train
from andiron.run import resume_policy

NEWEST_BELOW = (
    "outputs/????-??-??/*/status.json",
    "multirun/????-??-??/*/*/status.json",
)  # as conf/hydra/output says

FOLDERS = ("hydra.run.dir=", "hydra.sweep.dir=")


@dataclass(frozen=True)
class Recorded:
    """A run's folder and config, the overrides it was started with, and those that are said beside `resume` now."""

    folder: Path
    config: Train
    recorded: list[str]
    overrides: list[str]
    flags: list[str]
    instructions: dict[str, Any]  # as they are said now

    @property
    def is_enough(self) -> bool:
        """Whether nothing is to be composed: the record is taken as it is, whatever became of conf/."""
        return not self.overrides and not self.flags

    def changed(self, composed: DictConfig) -> Train:
        """The recorded config with only what the overrides change: conf/ may have changed since.

        Raises: ConfigError with every mistake.
        """
        composition.checked(composed)
        before = hydra.compose("train", overrides=self.recorded)
        own = resume_policy.changes(diagnosis.plain(before), diagnosis.plain(composed))
        plain = resume_policy.applied(dataclasses.asdict(self.config), own)
        problems = schema.problems(plain)
        if problems:
            raise errors.ConfigError(problems.values())
        changed = dataclasses.replace(schema.Train(**plain), **self.instructions)
        return schema.with_absolute_paths(changed)

    @property
    def arguments(self) -> list[str]:
        """What Hydra is to compose: the recorded overrides, those said now in place of their like."""
        now = {_key(override) for override in self.overrides}
        within = tuple(f"{key}." for key in now)  # of a group that is chosen anew or left out
        kept = [
            each
            for each in self.recorded
            if _key(each) not in now and not _key(each).startswith(within)
        ]
        return [*self.flags, *kept, *self.overrides, f"hydra.run.dir={_quoted(self.folder)}"]


def named(arguments: list[str]) -> Recorded | None:
    """The run that they name; None if they do not resume any, or leave it to `auto`.

    Raises: ConfigError for a sweep; RunFolderError if there is no such run, or its record is not whole.
    """
    said = _said(arguments)
    target = said.get("resume")
    if target in (None, "auto"):
        return None
    if {"-m", "--multirun"} & {*arguments}:
        raise errors.ConfigError(
            [
                f"resume={target}: goes on with one run; leave -m out, or say resume=auto for each of a sweep"
            ]
        )
    elsewhere = said.get("hydra.run.dir")
    folder = _newest() if target == "latest" else Path(os.path.abspath(str(target)))
    if elsewhere is not None and os.path.abspath(str(elsewhere)) != str(folder):
        raise errors.ConfigError(
            [
                f"hydra.run.dir={elsewhere}: a resumed run stays in its folder, {folder}; leave it out"
            ]
        )
    if not (folder / "config.json").is_file():
        raise errors.RunFolderError(
            f"resume={target}: {folder} holds no run: there is no config.json in it; name a run's folder"
        )
    allowed = said.get("resume_allow") or []
    allowed = [str(each) for each in (allowed if isinstance(allowed, list) else [allowed])]
    instructions = {
        "resume": str(folder),
        "resume_allow": allowed,
        "overwrite": bool(said.get("overwrite")),
    }
    overrides = [
        each
        for each in _overrides(arguments)
        if _key(each) not in (*resume_policy.INSTRUCTIONS, "hydra.run.dir")
    ]
    flags = [each for each in arguments if each not in _overrides(arguments)]
    recorded = _recorded_overrides(folder) if overrides or flags else []
    return Recorded(
        folder, Train.load(folder / "config.json"), recorded, overrides, flags, instructions
    )


def run(task: composition.Task, conf_dir: Path, arguments: list[str]) -> None:
    """As `composition.run`, but with `resume=<run folder>` the configuration is the one in that folder.

    Other overrides change only what they name in it.
    Raises: as `composition.run` and `named`.
    """
    found = named(arguments)
    if found is None:
        composition.run(task, conf_dir, arguments, check=_checked_start)
    elif found.is_enough:
        task(dataclasses.replace(found.config, **found.instructions), found.folder, {})
    else:
        composition.run(task, conf_dir, found.arguments, check=found.changed)


def _checked_start(config: DictConfig) -> Train:
    checked = composition.checked(config)
    given = HydraConfig.get().overrides.hydra
    if checked.resume == "auto" and not any(each.startswith(FOLDERS) for each in given):
        raise errors.ConfigError(
            [
                "resume=auto: without a fixed folder every start of this command is a new run; "
                "give hydra.run.dir=<folder> too, the same at every start; or hydra.sweep.dir for a sweep"
            ]
        )
    return checked


def refuse(arguments: list[str]) -> None:
    """For a command that trains nothing.

    Raises: ConfigError if they ask to resume.
    """
    if _said(arguments).get("resume") is not None:
        raise errors.ConfigError(
            ["resume: this command trains no run that could go on; leave it out"]
        )


def _newest() -> Path:
    """The folder of the run that was started or taken up last, below the current directory."""
    found = [
        path
        for pattern in NEWEST_BELOW
        for path in Path.cwd().glob(pattern)
        if (path.parent / "config.json").is_file()
    ]
    started = {path: _started(path) for path in found}
    if not found:
        raise errors.RunFolderError(
            f"resume=latest: no run in {' or '.join(NEWEST_BELOW)}; name its folder: resume=<run folder>"
        )
    return max(found, key=lambda path: started[path]).parent


def _started(status: Path) -> str:
    try:
        return str(files.read_json(status)["started"])
    except (
        OSError,
        ValueError,
        TypeError,
        KeyError,
    ):  # cut off by a full disk: its age is not known
        return ""


def _recorded_overrides(folder: Path) -> list[str]:
    path = folder / ".hydra" / "overrides.yaml"
    try:
        listed = OmegaConf.to_container(OmegaConf.load(path))
        if not isinstance(listed, list):
            raise ValueError(f"holds {type(listed).__name__}, not a list")
    except (OSError, ValueError, yaml.YAMLError, OmegaConfBaseException) as error:
        remedy = "say resume=<run folder> alone: config.json is enough for that"
        raise errors.RunFolderError(f"{path}: cannot be read ({error}); {remedy}") from error
    return [
        str(override)
        for override in listed
        if _key(str(override)) not in resume_policy.INSTRUCTIONS
    ]


def _said(arguments: list[str]) -> dict[str, Any]:
    """The value of every override that can be read, by its key, of a sweep the text; the mistakes in others are Hydra's to tell."""
    said = {}
    for override in _overrides(arguments):
        try:
            parsed = OverridesParser.create().parse_override(override)
        except HydraException:
            continue
        said[parsed.key_or_group] = (
            override.partition("=")[2] if parsed.is_sweep_override() else parsed.value()
        )
    return said


def _overrides(arguments: list[str]) -> list[str]:
    return [
        each
        for each in arguments
        if "=" in each and not each.startswith("-") or each.startswith("~")
    ]


def _key(override: str) -> str:
    return override.partition("=")[0].lstrip("+~")


def _quoted(path: Path) -> str:
    """A path as an override's value: spaces, commas and equal signs as they are; only quotes are escaped between quotes."""
    escaped = str(path).replace("'", "\\'")
    return f"'{escaped}'"
