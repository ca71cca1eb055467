"""The overrides in a run's `.hydra/overrides.yaml`, which are composed again for a fork.

They may choose from the config groups and set plain values, also `${lr}`. Hydra's own options,
resolvers, packages and sweeps could do more, so they are refused.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml
from hydra.core.override_parser.types import Override

from andiron import errors
from andiron.disk import files
from andiron.run_folder import RunFolder
from andiron.shell.config import config_folders, former_options, schema
from andiron.shell.config.arguments import parsed_override
from andiron.shell.config.resolution import REFERENCE
from andiron.shell.run.changed_options import (
    MOST_BYTES, OVERRIDES, recorded_overrides, without,
)  # fmt: skip

ALONE = "give resume=<run folder> alone, which reads config.json and not these"
# of BaseLoader, which makes only strings and merges no mappings, a small file makes no large value
Groups = Mapping[str, list[str]]  # the choices of every config group


def recorded(
    folder: RunFolder, conf_dirs: Sequence[Path], remedy: str = ALONE
) -> list[str]:
    """The recorded overrides of the run, which may only choose groups and set values.

    Raises: RunFolderError for a record that cannot be read, or that does more.
    """
    overrides = recorded_overrides(folder)
    kept = without(overrides, *schema.INSTRUCTIONS, *former_options.NAMES)
    check(folder.hydra / OVERRIDES, kept, config_folders.groups(*conf_dirs), remedy)
    return kept


def config_dir(folder: RunFolder) -> Path | None:
    """The folder of `--config-dir`, or the project's, with which the run was composed."""
    try:
        text = files.read_text(folder.hydra / "hydra.yaml", MOST_BYTES)
        record = yaml.load(text, yaml.BaseLoader)
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
