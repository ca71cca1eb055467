"""A group of parameters: its owner, how it is updated, and what stays as it is while frozen."""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import chain

from torch import Tensor, nn

from andiron.gradients import Gradients
from andiron.optim.optimizer import Closure, Optimizer
from andiron.optim.transformations import Chain
from andiron.plain import private_torch
from andiron.plain.plain_values import Named, Plain
from andiron.schedules.schedule import Schedule


@dataclass(frozen=True, kw_only=True)
class Group:
    """Parameters with one owner, and how they are updated; without an optimizer they are frozen.

    The learning rate is `lr_scale` times that of the run, or of the group's own `schedule`. The
    group is frozen for the first `frozen_updates` updates, then steps at every `every`-th update;
    other gradients are dropped. `settings` are further entries of `param_groups.json`.
    """

    name: str
    parameters: Mapping[str, nn.Parameter]
    optimizer: Optimizer | None
    number: int = 0  # of the group in its optimizer, which may have several
    lr_scale: float = 1.0
    schedule: Schedule | None = None
    transform: Chain | None = None
    every: int = 1
    frozen_updates: int = 0
    trains_statistics: bool = False  # running statistics, while the group is frozen
    settings: Named = field(default_factory=dict)

    @property
    def options(self) -> Plain:
        """The options of the group in its optimizer; {} if it is frozen."""
        return self.optimizer.held.options(self.number) if self.optimizer else {}


def part_of(gradients: Gradients, groups: Iterable[Group]) -> Gradients:
    """The gradients of the groups' parameters."""
    names = chain.from_iterable(group.parameters for group in groups)
    return gradients.replaced({n: gradients[n] for n in names if n in gradients})


def transformed(part: Gradients, groups: Iterable[Group], updates: int | None) -> Gradients:
    """The gradients, with the part of each group transformed.

    Raises: ValueError without `updates`.
    """
    for group in groups:
        if group.transform is None or not (own := part_of(part, [group])):
            continue
        if updates is None:
            why = "transforms its gradients: give `step` the completed `updates`"
            raise ValueError(f"group {group.name!r} {why}")
        part = part.replaced({**part, **group.transform(own, updates)})
    return part


def recomputed_part(closure: Closure, groups: Iterable[Group], updates: int | None) -> Gradients:
    return transformed(part_of(closure(), groups), groups, updates)


class FrozenModules:
    """Keeps frozen modules in evaluation mode: their running statistics change no more either."""

    def __init__(self, model: nn.Module):
        self._model = model
        self.held: set[nn.Module] = set()  # in evaluation mode
        self._switched: set[nn.Module] = set()  # those that were in training mode before

    def choose(self, frozen: Set[Tensor]) -> None:
        """Holds the modules whose parameters are all `frozen`; others train again."""
        self.held = {*_stateful(self._model, frozen)} if frozen else set()
        for module in self._switched - self.held:
            module.training = True
        self._switched &= self.held

    def hold(self) -> None:
        """Puts them into evaluation mode, before an update: `model.train()` may have been called.
        """
        for module in self.held:
            if module.training:
                module.training = False
                self._switched.add(module)


def _stateful(
    module: nn.Module, frozen: Set[Tensor], is_inside: bool = False
) -> Iterator[nn.Module]:
    """The modules with buffers in the model's state whose parameters are all frozen.

    A module without parameters belongs to the one around it, which is frozen if it `is_inside`.
    """
    own = {*module.parameters()}
    is_frozen = own <= frozen if own else is_inside
    if is_frozen and private_torch.has_stored_buffers(module):
        yield module
    for child in module.children():
        yield from _stateful(child, frozen, is_frozen)
