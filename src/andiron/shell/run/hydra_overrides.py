"""The overrides in a run's `.hydra/overrides.yaml`, which are composed again on resume.

They may choose from the config groups and set plain values, also `${lr}`. Hydra's own options,
resolvers, packages and sweeps could do more, so they are refused.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from hydra.core.override_parser.types import Override

from andiron import errors
from andiron.disk import files
from andiron.run_folder import RunFolder
from andiron.shell.config.arguments import parsed_override
from andiron.shell.config.resolution import REFERENCE

MOST_BYTES = 2**18  # of hydra.yaml, which is read slowly
ALONE = "give resume=<run folder> alone, which reads config.json and not these"
Groups = Mapping[str, list[str]]  # the choices of every config group


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML without aliases: a small file cannot stand for a large value.

    `yaml.parse` finds aliases too, but does not recurse: its time is quadratic in the depth.
    """

    def compose_node(self, parent: object, index: object) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("has an alias; a list of overrides needs none")
        return super().compose_node(parent, index)


def read(path: Path) -> list[str]:
    """The list of overrides in the file.

    Raises: OSError or ValueError if it is not a small file with a list of strings.
    """
    try:
        overrides = yaml.load(files.read_text(path), _PlainLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from error
    if not isinstance(overrides, list) or not all(isinstance(text, str) for text in overrides):
        raise ValueError("is not a list of strings")
    return overrides


def config_dir(folder: RunFolder) -> Path | None:
    """The folder of `--config-dir`, or the project's, with which the run was composed."""
    try:
        record = yaml.load(files.read_text(folder.hydra / "hydra.yaml", MOST_BYTES), _PlainLoader)
        sources = record["hydra"]["runtime"]["config_sources"]
        paths = [Path(source["path"]) for source in sources if source["provider"] == "command-line"]
    except (OSError, ValueError, LookupError, TypeError, yaml.YAMLError, RecursionError):
        return None
    return next(filter(Path.is_dir, paths), None)


def check(path: Path, overrides: list[str], groups: Groups, remedy: str = ALONE) -> None:
    """Refuses overrides that do more than choose from a group or set a value.

    Raises: RunFolderError with all of them.
    """
    problems = {text: _problem(text, parsed_override(text), groups) for text in overrides}
    refused = [f"{text!r} {problem}" for text, problem in problems.items() if problem]
    if refused:
        raise errors.RunFolderError(f"{path}: {'; '.join(refused)}; {remedy}")


def _problem(text: str, override: Override | None, groups: Groups) -> str | None:
    """Why a run folder may not contain an override."""
    if override is None:
        return "is not a valid Hydra override"
    key = str(override.key_or_group)
    if override.package is not None and override.package.startswith(("hydra", "_global_")):
        return "sets options outside its group"
    if key.partition(".")[0].partition("/")[0] == "hydra":
        return "sets an option of Hydra, which a run folder may not"
    if override.is_sweep_override():
        return "is a sweep"
    if "${" in REFERENCE.sub("", text):
        return "has an interpolation other than of options and variables"
    is_choice = key in groups or "/" in key
    return _unknown_choice(override, groups.get(key, [])) if is_choice else None


def _unknown_choice(override: Override, choices: list[str]) -> str | None:
    """Refuses a choice outside conf/: Hydra would look for it in any folder."""
    value = override.value()
    if override.is_delete() or value is None or isinstance(value, dict):
        return None
    names = value if isinstance(value, list) else [value]
    unknown = [str(name) for name in names if str(name) not in choices]
    return f"chooses {unknown[0]!r}, which is not in conf/" if unknown else None
