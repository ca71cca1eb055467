"""Where `conf/` is; and the files of other folders, looked at before Hydra composes from them.

A few lines of YAML whose aliases name each other stand for more values than memory holds. What
does no harm until it is chosen, such as a file that is no YAML, is left to the composition.
"""

from collections.abc import Iterable
from pathlib import Path

import yaml

from andiron import errors
from andiron.disk import files

MOST_BYTES = 2**18  # of a file; those of conf/ have some hundred
MOST_VALUES = 100_000  # that a file stands for, its aliases followed


def default_conf_dir() -> Path:
    """The folder `conf`: inside the package in a wheel, at the top of a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "conf"
    return installed if installed.is_dir() else package.parents[1] / "conf"


def check(folders: Iterable[Path]) -> None:
    """Refuses files that are harmful to read, or stand for more than a configuration.

    Raises: ConfigError with all of them.
    """
    found = [path for folder in folders for path in sorted(folder.rglob("*.yaml"))]
    paths = [path for path in found if not path.is_dir()]
    problems = [f"{path}: {problem}" for path in paths if (problem := _problem(path))]
    if problems:
        raise errors.ConfigError(problems)


def _problem(path: Path) -> str | None:
    try:
        node = yaml.compose(files.read_text(path, MOST_BYTES), yaml.SafeLoader)
        number = 0 if node is None else _number(node, {})
    except RecursionError:
        return "is nested too deeply; write it with fewer levels"
    except (yaml.YAMLError, OSError, UnicodeDecodeError):
        return None
    except ValueError as error:
        return f"cannot be read: {error}; correct it"
    if number <= MOST_VALUES:
        return None
    return f"stands for {number:.0e} values, more than {MOST_VALUES:,}; write it without aliases"


def _number(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node stands for, each alias being all that it names."""
    if id(node) not in known:
        known[id(node)] = MOST_VALUES  # of a node that names itself
        known[id(node)] = 1 + sum(_number(inner, known) for inner in _inside(node))
    return known[id(node)]


def _inside(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []
