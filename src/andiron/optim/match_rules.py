"""Rules that say which parameters a group claims: by name, module, rank and tag."""

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
    """Parameters that meet every criterion given; of several values in one criterion, any will do."""

    name: str | None = None  # a regular expression, searched for in the parameter's name
    parameters: tuple[str, ...] = ()  # names in full
    module: tuple[
        str, ...
    ] = ()  # a class of the module that holds it, or one that class derives from
    rank: tuple[Index, ...] = ()  # number of dimensions
    tag: tuple[str, ...] = ()

    def __call__(self, parameter: "Described") -> bool:
        """Whether the parameter meets the criteria; a shared one does if it does under any of its names."""
        return (
            (self.name is None or any(re.search(self.name, name) for name in parameter.names))
            and (not self.parameters or bool({*self.parameters} & {*parameter.names}))
            and (not self.module or bool({*self.module} & parameter.modules))
            and (not self.rank or parameter.tensor.dim() in self.rank)
            and (not self.tag or bool({*self.tag} & parameter.tags))
        )

    def __str__(self) -> str:
        given = {name: value for name, value in vars(self).items() if value not in (None, ())}
        return ", ".join(
            f"{name}: {value if isinstance(value, str) else list(value)}"
            for name, value in given.items()
        )


@dataclass(frozen=True)
class Rule:
    """The parameters that `match` but do not match `exclude`."""

    match: Match
    exclude: Match | None = None

    def __call__(self, parameter: "Described") -> bool:
        return self.match(parameter) and not (self.exclude is not None and self.exclude(parameter))


@dataclass(frozen=True)
class Described:
    """What rules can know of a parameter. A shared one has several names; the first is the one it goes by."""

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
    """`module`, its parameters and those of its submodules carrying these tags for rules to match."""
    setattr(module, TAGS, (*getattr(module, TAGS, ()), *tags))
    return module


def describe(model: nn.Module) -> list[Described]:
    """Every parameter of `model` once, in the order of `named_parameters()`.

    Besides the tags of the modules around it, each carries where it stands: `first` and `last` in the modules that hold
    the first and the last parameter of two or more dimensions, in the order they were defined; `hidden` in all others.
    """
    found: dict[int, list[tuple[str, nn.Module, frozenset[str]]]] = {}
    tensors: dict[int, Tensor] = {}
    holders: list[int] = []  # of matrices, in the order they were defined
    for name, tensor, module, tags in _walk(model, "", frozenset()):
        found.setdefault(id(tensor), []).append((name, module, tags))
        tensors[id(tensor)] = tensor
        holders += [id(module)] if tensor.dim() >= 2 else []
    return [
        Described(
            tuple(name for name, _, _ in uses),
            tensors[key],
            frozenset(cls.__name__ for _, module, _ in uses for cls in type(module).__mro__),
            frozenset[str]().union(*(tags for _, _, tags in uses))
            | _places([id(module) for _, module, _ in uses], holders),
        )
        for key, uses in found.items()
    ]


def _walk(
    module: nn.Module, prefix: str, outer: frozenset[str]
) -> Iterator[tuple[str, nn.Parameter, nn.Module, frozenset[str]]]:
    tags = outer | frozenset(getattr(module, TAGS, ()))
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield prefix + name, parameter, module, tags
    for name, child in module._modules.items():
        if child is not None:
            yield from _walk(child, f"{prefix}{name}.", tags)


def _places(modules: list[int], holders: list[int]) -> set[str]:
    """Where the modules that hold one parameter stand among those that hold matrices."""
    places = {
        place for place, end in ((FIRST, holders[:1]), (LAST, holders[-1:])) if {*modules} & {*end}
    }
    return places or {HIDDEN}
