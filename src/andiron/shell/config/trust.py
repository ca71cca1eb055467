"""Which classes a run folder may name: the folder is untrusted data.

The user's command line and `conf/` are trusted. What only the folder's record names is built if it
is shipped, or torch's, whose objects `andiron.shell.assembly.target_kinds` checks; anything else
needs `trust=[package]`.

>>> Trust().allows("torch.nn.Linear"), Trust().allows("mine.networks.Net")
(True, False)
>>> Trust(packages=("mine",)).allows("mine.networks.Net")
True
"""

import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from andiron import errors, ranges
from andiron.plain import readable, wings
from andiron.plain.plain_values import Named, Plain
from andiron.shell.config.leaves import leaves
from andiron.shell.config.signatures import shipped

# restricted also where `conf/` names them
OURS = ("andiron.", f"{wings.LAB}.", "torch.", "torchvision.")
OF_TORCH = (
    "torch.nn", "torch.nn.functional", "torch.optim",
    "torchvision.models", "torchvision.transforms.v2",
)  # fmt: skip
OF_PLACE = {"optimizer": "torch.optim", "scheduler": ""}  # the classes of torch, alone
Node = tuple[str, str, Any]  # after its option and its place: metrics.f1, metrics


@dataclass(frozen=True)
class Trust:
    """Packages and names that are allowed besides those that are shipped, or torch's."""

    packages: tuple[str, ...] = ()  # or single classes and functions, with all inside them
    names: frozenset[str] = frozenset()  # of classes and functions that the user gives, alone
    spelling: str = "trust=[{}]"  # of the option that trusts packages, in messages
    builds_writers: bool = True  # else one that sends data may be named

    def allows(self, name: Any) -> bool:
        """Whether a record may name the callable of this dotted name."""
        if not _is_name(name):
            return False  # such as an interpolation
        sends_data = shipped().get(name, {}).get("sends_data", False)
        is_known = name in shipped() or name.rpartition(".")[0] in OF_TORCH
        return (
            is_known and not (sends_data and self.builds_writers)
            or name in self.names
            or any(name == package or name.startswith(f"{package}.") for package in self.packages)
        )  # fmt: skip

    def with_config(self, plain: Named) -> "Trust":
        """This trust, extended by every name in a configuration that the user composed."""
        values = (value for _, value in leaves(plain, opens_lists=True))
        return replace(self, names=self.names | {*filter(_is_name, values)})

    def check(self, plain: Named) -> None:
        """Refuses a recorded configuration that names what is not allowed; imports nothing.

        Raises: ConfigError with every such class and function, and the option that trusts them.
        """
        refused = {
            f"{option}.{key}": node[key]
            for option, place, node in nodes(plain)
            for key in ("_target_", *self._functions(node))
            if not self.allows(node[key]) or key == "_target_" and _is_misplaced(place, node[key])
        }
        if refused:
            raise refusal(refused, self)

    def _functions(self, node: Named) -> list[str]:
        """The arguments that name functions; of a class that is refused those that may."""
        target, given = node["_target_"], [key for key in node if _is_name(node[key])]
        if _is_name(target) and target in shipped():
            kinds = shipped()[target]["arguments"]
            return [key for key in given if kinds.get(key, "").startswith("Function")]
        packages = {key: node[key].partition(".")[0] for key in given if not self.allows(target)}
        return [key for key in packages if importlib.util.find_spec(packages[key])]  # no import


LIST_ALONE = Trust()


def refusal(refused: Named, trusted: Trust) -> errors.ConfigError:
    """The error for names in a record that are not allowed, by option."""
    why = "recorded in a run folder, from which only listed classes are built"
    packages = {option: package for option in refused if (package := _package(refused[option]))}
    lines = [
        f"{option}={name!r}: {why}; to allow it, give {option.partition('.')[0]}=... and its "
        "options here"
        for option, name in refused.items()
        if option not in packages
    ]
    if packages:
        names = dict.fromkeys(packages.values())
        between = {"[": ",", "'": "', '"}.get(trusted.spelling.partition("{}")[0][-1:], " ")
        trusts = trusted.spelling.replace("{}", between.join(names))
        what = "these packages" if len(names) > 1 else "that package"
        named = [f"{option}={refused[option]!r}" for option in packages]
        hint = next(filter(None, map(wings.lab_hint, names)), "")
        lines.insert(
            0,
            f"{readable.joined(named, readable.MOST_LISTED)}: {why}; {trusts} trusts {what}, as "
            f"naming the class in conf/ does{hint}",
        )
    return errors.ConfigError(lines)


def _package(name: Any) -> str:
    """The package of a name, or its whole name in torch, if the user may trust it."""
    if not _is_name(name) or name.partition(".")[0] in sys.stdlib_module_names:
        return ""
    return name if name.startswith(OURS) else name.partition(".")[0]


def _is_misplaced(place: str, name: str) -> bool:
    """Whether a class of torch is of another kind than this part of a configuration."""
    module = name.rpartition(".")[0]
    return module in OF_TORCH and OF_PLACE.get(place, module) != module


def _is_name(value: object) -> bool:
    return isinstance(value, str) and ranges.DOTTED_NAME.fullmatch(value) is not None


def of_user(
    conf_dirs: Sequence[Path], packages: Iterable[str] = (), arguments: Iterable[str] = ()
) -> Trust:
    """The trust of the user: `packages`, and the names that the user gives.

    These are the names of other libraries in `conf/`, whose train.yaml may list packages too, and
    all names that the `arguments` have or choose.
    """
    trusted, names = [*packages], set[str]()
    for argument in arguments:
        group, _, value = argument.lstrip("+").partition("=")
        choices = re.findall(r"[\w-]+", value)
        paths = [folder / group / f"{choice}.yaml" for folder in conf_dirs for choice in choices]
        for text in [value, *(_text(path) for path in paths if path.is_file())]:
            names |= _dotted(text)
    for folder in conf_dirs:
        for path in filter(Path.is_file, folder.rglob("*.yaml")):
            if path == folder / "train.yaml":
                listed = mapping_in(_text(path)).get("trust")
                trusted += map(str, listed if isinstance(listed, list) else ())
            elif not path.is_relative_to(folder / "hydra"):
                names |= {name for name in _dotted(_text(path)) if not name.startswith(OURS)}
    return Trust(tuple(trusted), frozenset(names))


def _text(path: Path) -> str:
    return re.sub("#.*", "", path.read_text(encoding="utf-8", errors="replace"))


def _dotted(text: str) -> set[str]:
    return {match[0] for match in ranges.DOTTED_NAME.finditer(text)}


def nodes(plain: object, path: tuple[str, ...] = ()) -> Iterator[Node]:
    """Every node of a configuration, or below its `path`, with its option and its place."""
    items: Any = dict(enumerate(plain)) if isinstance(plain, list) else plain
    if not isinstance(items, Mapping):
        return
    if path and "_target_" in items:
        yield ".".join(path), _place(path), items
    for key, inner in items.items():
        if path or key != "variables":  # which are never built
            yield from nodes(inner, (*path, str(key)))


def _place(path: Sequence[str]) -> str:
    """The first name of a path; each setting of a parameter group has its own."""
    name = path[2] if path[0] == "param_groups" and len(path) > 2 else path[0]
    return "scheduler" if name == "schedule" else name


def mapping_in(text: str) -> Plain:
    """The content of a YAML file; {} for a file that is invalid: Hydra reports it."""
    import yaml  # a run from Python reads none

    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError:
        content = None
    return content if isinstance(content, dict) else {}
