"""Rules that say which parameters a group claims: by name, module, rank and tag.

>>> rule = Rule(Match(rank=(1,)), exclude=Match(module=("LayerNorm",)))
>>> model = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
>>> [parameter.name for parameter in described(model) if rule(parameter)]
['0.bias']
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor, nn

from andiron.ranges import Index

Module = TypeVar("Module", bound=nn.Module)
TAGS = "_andiron_tags"
FIRST, HIDDEN, LAST = "first", "hidden", "last"


@dataclass(frozen=True, kw_only=True)
class Match:
    """Parameters that meet every given criterion; any of several values meets a criterion."""

    name: str | None = None  # a regular expression, searched for in the parameter's name
    parameters: tuple[str, ...] = ()  # full names
    module: tuple[str, ...] = ()  # the class of the module that holds it, or a base class of that
    rank: tuple[Index, ...] = ()  # number of dimensions
    tag: tuple[str, ...] = ()

    def __call__(self, parameter: "Described") -> bool:
        """Whether the parameter, under any of its names, meets the criteria."""
        return (
            (self.name is None or any(re.search(self.name, name) for name in parameter.names))
            and (not self.parameters or bool({*self.parameters} & {*parameter.names}))
            and (not self.module or bool({*self.module} & parameter.modules))
            and (not self.rank or parameter.tensor.dim() in self.rank)
            and (not self.tag or bool({*self.tag} & parameter.tags))
        )

    def __str__(self) -> str:
        given = {name: value for name, value in vars(self).items() if value not in (None, ())}
        shown = [f"{name}: {v if isinstance(v, str) else list(v)}" for name, v in given.items()]
        return ", ".join(shown)


@dataclass(frozen=True)
class Rule:
    """The parameters that `match` but do not match `exclude`."""

    match: Match
    exclude: Match | None = None

    def __call__(self, parameter: "Described") -> bool:
        return self.match(parameter) and not (self.exclude is not None and self.exclude(parameter))


@dataclass(frozen=True)
class Described:
    """A parameter as rules see it. A shared one has several names and goes by the first."""

    names: tuple[str, ...]
    tensor: Tensor
    modules: frozenset[str]
    tags: frozenset[str]

    @property
    def name(self) -> str:
        return self.names[0]

    def __str__(self) -> str:
        others = f" (also {', '.join(self.names[1:])})" if len(self.names) > 1 else ""
        return f"{self.name!r}{others}"


def tag(module: Module, *tags: str) -> Module:
    """`module`, its parameters and those of its submodules tagged for rules to match."""
    setattr(module, TAGS, (*getattr(module, TAGS, ()), *tags))
    return module


def described(model: nn.Module) -> list[Described]:
    """Every parameter of `model` once, in the order of `named_parameters()`.

    Besides the tags of the modules around it, each has its position as a tag: `first` and `last` in
    the modules that hold the first and the last parameter of two or more dimensions, in order of
    definition; `hidden` in all others.
    """
    uses: dict[int, list[tuple[str, Tensor, nn.Module, frozenset[str]]]] = {}
    for use in _walk(model, "", frozenset()):
        uses.setdefault(id(use[1]), []).append(use)
    holders = [
        id(module) for _, tensor, module, _ in _walk(model, "", frozenset()) if tensor.dim() >= 2
    ]
    return [_described(each, holders) for each in uses.values()]


def _described(
    uses: list[tuple[str, Tensor, nn.Module, frozenset[str]]], holders: list[int]
) -> Described:
    names, tensors, modules, tags = zip(*uses)
    here = {id(module) for module in modules}
    ends = {FIRST: holders[:1], LAST: holders[-1:]}
    positions = {position for position, end in ends.items() if here & {*end}} or {HIDDEN}
    classes = frozenset(cls.__name__ for module in modules for cls in type(module).__mro__)
    return Described(names, tensors[0], classes, frozenset(positions).union(*tags))


def _walk(
    module: nn.Module, prefix: str, outer: frozenset[str]
) -> Iterator[tuple[str, Tensor, nn.Module, frozenset[str]]]:
    tags = outer | frozenset(getattr(module, TAGS, ()))
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield prefix + name, parameter, module, tags
    for name, child in module._modules.items():
        if child is not None:
            yield from _walk(child, f"{prefix}{name}.", tags)
