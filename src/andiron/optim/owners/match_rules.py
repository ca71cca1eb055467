"""Rules for the parameters that a group claims: by name, module, rank and tag.

>>> rule = Rule(Match(rank=(1,)), exclude=Match(module=("LayerNorm",)))
>>> model = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
>>> [parameter.name for parameter in described(model) if rule(parameter)]
['0.bias']
"""

import sys
import typing
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeVar

from torch import Tensor, nn

from andiron.plain import patterns
from andiron.plain.plain_values import Named
from andiron.ranges import Index

Module = TypeVar("Module", bound=nn.Module)
Ranks = tuple[int, ...]
TAGS = "_andiron_tags"
FIRST, HIDDEN, LAST = "first", "hidden", "last"


@dataclass(frozen=True, kw_only=True)
class Match:
    """Parameters that meet every given criterion; any of several values meets a criterion.

    One value stands for a tuple of one.
    """

    name: str | None = None  # a regular expression, searched for in the parameter's name
    parameters: Sequence[str] | str = ()  # full names
    module: Sequence[str] | str = ()  # its module's class or a base: Conv2d, torch.nn.Conv2d
    rank: Sequence[Index] | Index = ()  # number of dimensions
    tag: Sequence[str] | str = ()

    def __post_init__(self) -> None:
        for criterion in ("parameters", "module", "rank", "tag"):
            value = getattr(self, criterion)
            several = tuple(value) if isinstance(value, Iterable) else (value,)
            object.__setattr__(self, criterion, (value,) if isinstance(value, str) else several)

    def __call__(self, parameter: "Described") -> bool:
        """Whether the parameter, under any of its names, meets the criteria.

        Raises: ValueError for a regular expression that takes too long.
        """
        return (
            (self.name is None or bool(patterns.searched(self.name, parameter.names)))
            and (not self.parameters or bool({*self.parameters} & {*parameter.names}))
            and (not self.module or any(_is_a(kind, self.module) for kind in parameter.kinds))
            and (self.rank == () or parameter.tensor.dim() in typing.cast(Ranks, self.rank))
            and (not self.tag or bool({*self.tag} & parameter.tags))
        )

    @classmethod
    def of(cls, match: str | Named) -> Self:
        """The criteria as a configuration gives them; a text is the `name`."""
        criteria: Named = {"name": match} if isinstance(match, str) else match
        return cls(**{name: value for name, value in criteria.items() if value is not None})

    def __str__(self) -> str:
        criteria = {name: value for name, value in vars(self).items() if value not in (None, ())}
        shown = [f"{name}: {v if isinstance(v, str) else list(v)}" for name, v in criteria.items()]
        return ", ".join(shown)


@dataclass(frozen=True)
class Rule:
    """The parameters that `match` but do not match `exclude`."""

    match: Match
    exclude: Match | None = None

    @classmethod
    def of(cls, match: str | Named, exclude: str | Named | None) -> Self:
        """The rule as a configuration gives it; an empty `exclude` is a pattern that matches all.
        """
        return cls(Match.of(match), None if exclude is None else Match.of(exclude))

    def __call__(self, parameter: "Described") -> bool:
        return self.match(parameter) and not (self.exclude and self.exclude(parameter))


@dataclass(frozen=True)
class Described:
    """A parameter with its names and tags. A shared one is identified by its first name."""

    names: tuple[str, ...]
    tensor: Tensor
    kinds: frozenset[type[nn.Module]]  # of the modules that hold it
    tags: frozenset[str]

    @property
    def name(self) -> str:
        return self.names[0]

    def __str__(self) -> str:
        others = f" (also {', '.join(self.names[1:])})" if len(self.names) > 1 else ""
        return f"{self.name!r}{others}"


def tag(module: Module, *tags: str) -> Module:
    """`module`, with its parameters and its submodules' tagged for rules to match."""
    setattr(module, TAGS, (*getattr(module, TAGS, ()), *tags))
    return module


def described(model: nn.Module) -> list[Described]:
    """Every parameter of `model` once, in the order of `named_parameters()`.

    Besides its modules' tags, each has its position as a tag: `first` and `last` in the modules
    that hold the first and the last parameter of two or more dimensions, in order of definition;
    `hidden` in all others.
    """
    uses = defaultdict[Tensor, list[Use]](list)
    holders = []
    for use in _uses(model):
        uses[use.tensor].append(use)
        if use.tensor.dim() >= 2:
            holders.append(use.module)
    ends = {FIRST: holders[:1], LAST: holders[-1:]}
    return [_described(names, ends) for names in uses.values()]


class Use(NamedTuple):
    """One name of a parameter, the module that holds it, and the tags around it."""

    name: str
    tensor: Tensor
    module: nn.Module
    tags: frozenset[str]


def _uses(model: nn.Module) -> Iterator[Use]:
    tags: dict[str, frozenset[str]] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        outer = tags.get(path.rpartition(".")[0], frozenset())
        tags[path] = outer.union(getattr(module, TAGS, ()))
        own = module.named_parameters(path, recurse=False, remove_duplicate=False)
        yield from (Use(name, parameter, module, tags[path]) for name, parameter in own)


def _described(uses: list[Use], ends: Mapping[str, list[nn.Module]]) -> Described:
    names, tensors, modules, tags = zip(*uses)
    positions = {position for position, end in ends.items() if {*end} & {*modules}} or {HIDDEN}
    kinds = frozenset(type(module) for module in modules)
    return Described(names, tensors[0], kinds, frozenset(positions).union(*tags))


def _is_a(kind: type, names: Iterable[str]) -> bool:
    """Whether a name, alone or after the module that exports it, is that of the class or a base.

    >>> _is_a(nn.Conv2d, ["torch.nn.Conv2d"]), _is_a(nn.Conv2d, ["torch.nn.Linear"])
    (True, False)
    """
    parts = [name.rpartition(".") for name in names]
    return any(
        cls.__name__ == name and (not path or getattr(sys.modules.get(path), name, None) is cls)
        for cls in kind.__mro__
        for path, _, name in parts
    )
