"""The files of a folder that `--config-dir` names, looked at before Hydra composes from them.

A few lines of YAML whose aliases name each other stand for more values than memory holds.
"""

from collections.abc import Iterable
from pathlib import Path

import yaml

from andiron import errors, files

MOST_BYTES = 2**18  # of a file; those of conf/ have some hundred
PLAIN = "tag:yaml.org,2002:"
MOST_VALUES = 100_000  # that a file stands for, its aliases followed


def check(folders: Iterable[Path]) -> None:
    """Refuses files that are no YAML, or stand for more than a configuration.

    Raises: ConfigError with all of them.
    """
    paths = [path for folder in folders for path in sorted(folder.rglob("*.yaml"))]
    problems = [f"{path}: {problem}" for path in paths if (problem := _problem(path))]
    if problems:
        raise errors.ConfigError(problems)


def not_yaml(error: yaml.MarkedYAMLError) -> str:
    """Where a text stops being YAML, and why."""
    mark = error.problem_mark
    place = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
    return f"no YAML: {place}{error.problem}"


def _problem(path: Path) -> str | None:
    try:
        node = yaml.compose(files.read_text(path, MOST_BYTES), yaml.SafeLoader)
        number = 0 if node is None else _number(node, {})
    except RecursionError:
        return "is nested too deeply; write it with fewer levels"
    except yaml.MarkedYAMLError as error:
        return not_yaml(error)
    except (yaml.YAMLError, OSError, ValueError) as error:
        return f"cannot be read: {' '.join(str(error).split())}; correct it"
    if number > MOST_VALUES:
        stands = f"stands for {number:.0e} values, more than {MOST_VALUES:,}"
        return f"{stands}; write it without aliases"
    others = {tag for tag in _tags(node) if not tag.startswith(PLAIN) or "python" in tag}
    named = ", ".join(sorted(others))
    return f"has the tag {named}, and no plain value; remove it" if named else None


def _number(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node stands for, each alias being all that it names."""
    if id(node) not in known:
        known[id(node)] = MOST_VALUES  # of a node that names itself
        known[id(node)] = 1 + sum(_number(inner, known) for inner in _inside(node))
    return known[id(node)]


def _tags(node: yaml.Node | None) -> Iterable[str]:
    if node is not None:
        yield node.tag
        for inner in _inside(node):
            yield from _tags(inner)


def _inside(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []
