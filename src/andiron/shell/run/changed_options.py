"""The options of a recorded run, changed by the overrides of a command line.

Overrides are applied to the record; only a group that they choose is composed. An option that
repeated others, as `initial_lr: ${lr}` does in `.hydra/config.yaml`, follows them.
"""

import re
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
from andiron.shell.config import config_folders, schema
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
    keys, recorded = [*map(key_of, given)], recorded_overrides(folder)
    config = _with_references(record, folder, keys)
    groups = config_folders.groups(*conf_dirs)
    parsed = OverridesParser.create().parse_overrides(given)
    chosen = [override for override in parsed if _is_choice(override, groups)]
    for override in chosen:  # first: others set options in what they choose
        _choose(config, override, conf_dirs, recorded)
    for override in (override for override in parsed if override not in chosen):
        _set(config, override, recorded)
    texts = {COMPOSED: config, OVERRIDES: OmegaConf.create(joined(recorded, given))}
    return config, {name: OmegaConf.to_yaml(content) for name, content in texts.items()}


def _with_references(record: Train, folder: RunFolder, given: Sequence[str]) -> DictConfig:
    """The recorded options; one that had the value of others refers to them.

    Raises: ConfigError if one was computed otherwise from an option that is `given`.
    """
    plain = record.recorded()
    variables = plain.pop(schema.VARIABLES)
    plain |= variables
    if "${" in str(plain) or variables.keys() & schema.resume_policy().keys():
        # a stranger's, which would be resolved, or be an option that was not checked
        reason = "has an interpolation, or a variable with the name of an option, as no record has"
        raise errors.RunFolderError(f"{folder.config}: {reason}")
    config, problems = OmegaConf.create(plain), []
    values = dict(leaves(plain)) | dict(leaves(plain, opens_lists=True))
    whole = {path: str(value) for path, value in values.items()}
    texts = {path: text for path, text in whole.items() if len(text) <= schema.MOST_TEXT}

    def of_source(match: re.Match[str]) -> str:
        return texts.get(tuple(match[1].split(".")), match[0])

    # a small file may name one list, or text, thousands of times
    for path, text in islice(leaves(_read(folder, COMPOSED), opens_lists=True), MOST_OPTIONS):
        if path not in values or not isinstance(text, str) or len(text) > schema.MOST_TEXT:
            continue
        option, sources = ".".join(path), REFERENCE.findall(text)
        if sources and REFERENCE.sub(of_source, text) == texts.get(path):
            OmegaConf.update(config, option, text)
        elif without([option], *given) and without(sources, *given) != sources:
            problems.append(f"{option}: was computed from an option that is given; give it too")
    if problems:
        raise errors.ConfigError(problems)
    return config


def _is_choice(override: Override, groups: Collection[str]) -> bool:
    """Whether an override chooses from a group. Raises: ConfigError for several values."""
    if override.is_sweep_override():
        reason = "several values, and one run is resumed"
        raise errors.ConfigError(f"{override.input_line}: {reason}")
    value = override.value()
    names = value if isinstance(value, list) else [value]
    is_of_names = all(isinstance(name, str) for name in names) and not override.is_delete()
    return override.key_or_group in groups and is_of_names


def _set(config: DictConfig, override: Override, recorded: Sequence[str]) -> None:
    """Sets or removes an option; an unknown one is reported with the whole configuration.

    A mapping is merged as by Hydra: with a node, but not with that of a `recorded` override.
    """
    option = str(override.key_or_group)
    if not override.is_delete():
        node: Any = OmegaConf.select(config, option)
        is_node = OmegaConf.is_dict(node) and "_target_" in node
        is_merged = is_node or without(recorded, option) == recorded
        OmegaConf.update(config, option, override.value(), merge=is_merged, force_add=True)
        return
    above, _, name = option.rpartition(".")
    node = OmegaConf.select(config, above) if above else config
    del node[name]


def _choose(
    config: DictConfig, override: Override, conf_dirs: Sequence[Path], recorded: Sequence[str]
) -> None:
    """Replaces the node of a group by the chosen one.

    Sets also what a choice that is not `recorded` sets elsewhere, as an experiment does, except
    what a recorded override has set.
    """
    group, of_choice = str(override.key_or_group), [str(override.input_line)]
    composed = (config_folders.composed_by_hydra(given, *conf_dirs) for given in (of_choice, []))
    chosen, usual = map(_raw, composed)
    if group in chosen:
        config[group] = chosen[group]
    if override.input_line in recorded:
        return
    keys = [group, *map(key_of, recorded)]
    for path, (_, value) in differences(usual, chosen).items():
        option = ".".join(path)
        if value is MISSING or not without([option], *keys):
            continue
        if path[1:] == ("_target_",):  # of the experiment's choice from another group
            config[path[0]] = chosen[path[0]]
        OmegaConf.update(config, option, value, force_add=True)


def _raw(config: DictConfig) -> dict[str, Any]:
    plain: Any = OmegaConf.to_container(config)
    return plain


def recorded_overrides(folder: RunFolder) -> list[str]:
    """The overrides on record. Raises: RunFolderError if they cannot be read."""
    overrides = _read(folder, OVERRIDES)
    if isinstance(overrides, list) and all(isinstance(text, str) for text in overrides):
        return overrides
    raise errors.RunFolderError(f"{folder.hydra / OVERRIDES}: cannot be read: no list of strings")


def joined(recorded: Sequence[str], given: Sequence[str]) -> list[str]:
    """The recorded overrides, without those that the given ones replace, and the given ones."""
    added, removed = ({key_of(text) for text in recorded if text[0] == sign} for sign in "+~")
    own = [
        f"+{text}" if key_of(text) in added - removed and text[0] not in "+~" else text
        for text in given
    ]
    return [*without(recorded, *map(key_of, given)), *own]


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
