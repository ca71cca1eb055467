"""The options of a recorded run, changed by the overrides of a command line.

Overrides are applied to the record; only a group that they choose is composed. An option that
repeated another, as `initial_lr: ${lr}` does in `.hydra/config.yaml`, follows it.
"""

from collections.abc import Collection, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf

from andiron import errors
from andiron.disk import files
from andiron.run_folder import RunFolder
from andiron.shell.config import diagnosis, schema
from andiron.shell.config.leaves import MISSING, differences, leaves
from andiron.shell.config.resolution import REFERENCE
from andiron.shell.config.schema import Train
from andiron.shell.run import run_record

MOST_BYTES = 2**18  # of a file in .hydra/, which is read slowly
MOST_OPTIONS = 20_000
COMPOSED, OVERRIDES = "config.yaml", "overrides.yaml"


def changed(
    record: Train, folder: RunFolder, given: list[str], conf_dirs: Sequence[Path]
) -> tuple[DictConfig, dict[str, str]]:
    """The recorded options with the `given` overrides, unresolved, and both files of `.hydra/`.

    Raises: RunFolderError for a record that cannot be read; ConfigError, or an error of Hydra, for
    a wrong override.
    """
    config, recorded = _with_references(record, folder), recorded_overrides(folder)
    groups = diagnosis.groups(*conf_dirs)
    parsed = OverridesParser.create().parse_overrides(given)
    chosen = [override for override in parsed if _is_choice(override, groups)]
    for override in chosen:  # first: others set options in what they choose
        _choose(config, override, conf_dirs, is_new=override.input_line not in recorded)
    for override in (override for override in parsed if override not in chosen):
        _set(config, override)
    overrides = [*without(recorded, *map(key_of, given)), *given]
    texts = {COMPOSED: config, OVERRIDES: OmegaConf.create(overrides)}
    return config, {name: OmegaConf.to_yaml(content) for name, content in texts.items()}


def _with_references(record: Train, folder: RunFolder) -> DictConfig:
    """The recorded options; one that had the value of another refers to it."""
    plain = record.recorded()
    plain |= plain.pop(schema.VARIABLES)
    if "${" in str(plain):  # a stranger's, which would be resolved
        raise errors.RunFolderError(f"{folder.config}: has an interpolation, as no record has")
    config, values = OmegaConf.create(plain), dict(leaves(plain, opens_lists=True))
    # a small file may name one list thousands of times
    for path, text in islice(leaves(_read(folder, COMPOSED), opens_lists=True), MOST_OPTIONS):
        reference = REFERENCE.fullmatch(str(text))
        if reference and path in values:
            if values[path] == values.get(tuple(reference[1].split(".")), MISSING):
                OmegaConf.update(config, ".".join(path), text)
    return config


def _is_choice(override: Override, groups: Collection[str]) -> bool:
    """Whether an override chooses from a group. Raises: ConfigError for several values."""
    if override.is_sweep_override():
        reason = "several values, and one run is resumed"
        raise errors.ConfigError([f"{override.input_line}: {reason}"])
    value = override.value()
    names = value if isinstance(value, list) else [value]
    is_of_names = all(isinstance(name, str) for name in names) and not override.is_delete()
    return override.key_or_group in groups and is_of_names


def _set(config: DictConfig, override: Override) -> None:
    """Sets or removes an option; an unknown one is reported with the whole configuration."""
    option = str(override.key_or_group)
    if not override.is_delete():
        OmegaConf.update(config, option, override.value(), force_add=True)
        return
    above, _, name = option.rpartition(".")
    node: Any = OmegaConf.select(config, above) if above else config
    del node[name]


def _choose(
    config: DictConfig, override: Override, conf_dirs: Sequence[Path], *, is_new: bool
) -> None:
    """Replaces the node of a group by the chosen one.

    Sets also what a choice that `is_new` sets elsewhere, as an experiment does.
    """
    group, of_choice = str(override.key_or_group), [str(override.input_line)]
    composed = (diagnosis.composed_by_hydra(given, *conf_dirs) for given in (of_choice, []))
    chosen, usual = map(_raw, composed)
    if group in chosen:
        config[group] = chosen[group]
    for path, (_, value) in differences(usual, chosen).items() if is_new else ():
        if path[0] != group and value is not MISSING:
            OmegaConf.update(config, ".".join(path), value, force_add=True)


def _raw(config: DictConfig) -> dict[str, Any]:
    plain: Any = OmegaConf.to_container(config)
    return plain


def recorded_overrides(folder: RunFolder) -> list[str]:
    """The overrides on record. Raises: RunFolderError if they cannot be read."""
    overrides = _read(folder, OVERRIDES)
    if isinstance(overrides, list) and all(isinstance(text, str) for text in overrides):
        return overrides
    raise errors.RunFolderError(f"{folder.hydra / OVERRIDES}: cannot be read: no list of strings")


def without(overrides: Sequence[str], *keys: str) -> list[str]:
    """The overrides without these keys and the options inside them."""
    below = tuple(f"{key}." for key in keys)
    return [text for text in overrides if not f"{key_of(text)}.".startswith(below)]


def key_of(override: str) -> str:
    """The option or group that an override names."""
    return override.partition("=")[0].lstrip("+~")


def _read(folder: RunFolder, name: str) -> Any:
    """The lists, mappings and strings in a file of `.hydra/`."""
    path = folder.hydra / name
    try:
        run_record.check(folder, path)
        # of BaseLoader, which merges no mappings, a small file makes no large value
        return yaml.load(files.read_text(path, MOST_BYTES), yaml.BaseLoader)
    except (OSError, ValueError, yaml.YAMLError, RecursionError, errors.DataError) as error:
        raise errors.RunFolderError(
            f"{path}: cannot be read ({' '.join(str(error).split())}); give resume=<run folder> "
            f"alone: {folder.config.name} is enough for that; instead of a rerun, fork what it "
            "repeats"
        ) from error
