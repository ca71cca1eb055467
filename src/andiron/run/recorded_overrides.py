"""The overrides in a run's `.hydra/overrides.yaml`: data that is composed again on a resume.

They choose from the config groups and set plain values. Hydra's own options, interpolations,
packages and sweeps would do more, so they are refused.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, QuotedString
from hydra.errors import HydraException

from andiron import errors, files

Groups = Mapping[str, list[str]]  # the choices of every config group


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML without aliases: a small file cannot stand for a large value."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("has an alias; a list of overrides needs none")
        return super().compose_node(parent, index)


def read(path: Path) -> list[str]:
    """The list in the file.

    Raises: OSError or ValueError if it is not a small file with a list of text.
    """
    try:
        listed = yaml.load(files.read_text(path), _PlainLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from error
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise ValueError("holds something else than a list of text")
    return listed


def check(path: Path, overrides: list[str], groups: Groups) -> None:
    """Refuses overrides that do more than choose from a group or set a plain value.

    Raises: RunFolderError with all of them.
    """
    refused = [
        f"{text!r} {problem}" for text in overrides for problem in _problems(text, groups)
    ]
    if refused:
        remedy = "give resume=<run folder> alone, which reads config.json and not these"
        raise errors.RunFolderError(f"{path}: {'; '.join(refused)}; {remedy}")


def _problems(text: str, groups: Groups) -> Iterator[str]:
    try:
        override = OverridesParser.create().parse_override(text)
    except HydraException:
        yield "is no override of Hydra's grammar"
        return
    key = str(override.key_or_group)
    if override.package is not None and override.package.startswith(("hydra", "_global_")):
        yield "sets options outside its group"
    elif key.partition(".")[0].partition("/")[0] == "hydra":
        yield "sets an option of Hydra, which a run folder may not"
    elif override.is_sweep_override():
        yield "is a sweep"
    elif "${" in text:
        yield "has an interpolation"
    elif key in groups or "/" in key:
        yield from _unknown_choices(override, groups.get(key, []))


def _unknown_choices(override: Override, choices: list[str]) -> Iterator[str]:
    """Hydra would look for another choice in any folder that the text leads to."""
    value = override.value()
    for each in value if isinstance(value, list) else [value]:
        name = each.text if isinstance(each, QuotedString) else str(each)
        if each is not None and not override.is_delete() and name not in choices:
            yield f"chooses {name!r}, which is not in conf/"
