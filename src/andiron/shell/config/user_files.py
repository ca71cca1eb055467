"""Where `conf/` is, and checks of the files of other folders before Hydra composes from them.

A few lines of YAML whose aliases name each other can expand to more values than memory holds. Other
invalid files are reported when they are composed.
"""

from collections.abc import Iterable
from pathlib import Path

import yaml

from andiron import errors
from andiron.disk import files

MOST_BYTES = 2**18  # of a file; files of conf/ have a few hundred
MOST_VALUES = 100_000  # in a file with its aliases expanded


def default_conf_dir() -> Path:
    """The folder `conf`: inside the package in a wheel, at the top of a checkout."""
    package = Path(__file__).resolve().parents[2]
    installed = package / "conf"
    return installed if installed.is_dir() else package.parents[1] / "conf"


def check(folders: Iterable[Path]) -> None:
    """Refuses files that are harmful to read, or expand to more than a configuration.

    Raises: ConfigError with all of them.
    """
    matches = [path for folder in folders for path in sorted(folder.rglob("*.yaml"))]
    paths = [path for path in matches if not path.is_dir()]
    problems = [f"{path}: {problem}" for path in paths if (problem := _problem(path))]
    if problems:
        raise errors.ConfigError(problems)


def _problem(path: Path) -> str | None:
    try:
        node = yaml.compose(files.read_text(path, MOST_BYTES), yaml.SafeLoader)
        size = 0 if node is None else _expanded_size(node, {})
    except RecursionError:
        return "is nested too deeply; write it with fewer levels"
    except (yaml.YAMLError, OSError, UnicodeDecodeError):
        return None
    except ValueError as error:
        return f"cannot be read: {error}; correct it"
    if size <= MOST_VALUES:
        return None
    return f"stands for {size:.0e} values, more than {MOST_VALUES:,}; write it without aliases"


def _expanded_size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """The number of values in a node with its aliases expanded."""
    if id(node) not in sizes:
        sizes[id(node)] = MOST_VALUES  # for a node that contains itself
        sizes[id(node)] = 1 + sum(_expanded_size(inner, sizes) for inner in _children(node))
    return sizes[id(node)]


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []
