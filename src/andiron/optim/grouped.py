"""Several optimizers as one: each parameter has one owner and gets that owner's step.

>>> import torch
>>> from andiron.gradients import backward
>>> model = nn.Linear(3, 1)
>>> weight = Optimizer(torch.optim.AdamW, model, names=["weight"])
>>> bias = Optimizer(torch.optim.SGD, model, names=["bias"])
>>> first = Group(name="weight", parameters=weight.parameters, optimizer=weight)
>>> second = Group(name="bias", parameters=bias.parameters, optimizer=bias, lr_scale=2.0)
>>> groups = GroupedOptimizer(model, [first, second])
>>> gradients = backward(model(torch.ones(2, 3)).mean(), model)
>>> model = groups.step({"weight": 0.1, "bias": 0.2}, model, gradients)
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

from torch import Tensor, nn

from andiron import errors
from andiron.gradients import Gradients, Tensors
from andiron.optim.optimizer import Closure, Optimizer
from andiron.optim.owners.group import (
    FrozenModules, Group, part_of, recomputed_part, transformed,
)  # fmt: skip
from andiron.optim.owners.ownership import BASE
from andiron.plain import readable
from andiron.plain.plain_values import Named
from andiron.schedules.schedule import Schedule, peak_rate

Model = TypeVar("Model", bound=nn.Module)
Rates = dict[str, float]  # learning rate by group


class GroupedOptimizer:
    """Several optimizers as one; `step` updates the groups for which it gets a learning rate.

    Raises: OwnershipError if a trained parameter has no owner or two.
    """

    def __init__(self, model: nn.Module, groups: Iterable[Group]):
        self._model = model
        self.groups = {group.name: group for group in groups}
        self.optimizers = [*dict.fromkeys(g.optimizer for g in self.groups.values() if g.optimizer)]
        if not all(isinstance(optimizer, Optimizer) for optimizer in self.optimizers):
            what = "andiron.optim.Optimizer(torch.optim.Adam, model, names=[...])"
            raise TypeError(f"a group's optimizer is an {what}, or None")
        # those of each optimizer, in its order
        self.owned = {
            optimizer: sorted(
                (group for group in self.groups.values() if group.optimizer is optimizer),
                key=attrgetter("number"),
            )
            for optimizer in self.optimizers
        }
        self._has_transforms = any(group.transform is not None for group in self.groups.values())
        # whether a step evaluates the loss several times
        self.needs_closure = any(optimizer.needs_closure for optimizer in self.optimizers)
        # the owned parameters by name
        self.parameters = {
            name: t for group in self.groups.values() for name, t in group.parameters.items()
        }
        # the groups that are frozen for their first updates
        self.waiting = {name for name, group in self.groups.items() if group.frozen_updates}
        without = {name for name, group in self.groups.items() if group.optimizer is None}
        self.frozen_modules = FrozenModules(model)
        self._frozen: set[str] = set()
        self._rates = Rates()  # also of frozen groups, which may share an optimizer with others
        self._freeze(without | self.waiting)

    @classmethod
    def of(cls, optimizer: Optimizer, model: nn.Module) -> "GroupedOptimizer":
        """One optimizer as the owner of all its parameters."""
        return cls(model, [Group(name=BASE, parameters=optimizer.parameters, optimizer=optimizer)])

    @property
    def frozen(self) -> list[str]:
        """The names of the groups that are frozen now."""
        return sorted(self._frozen)

    @property
    def schedules(self) -> list[Schedule]:
        """The groups' own schedules."""
        return [group.schedule for group in self.groups.values() if group.schedule is not None]

    def learning_rates(self, lr: float, updates: int) -> Rates:
        """Each group's learning rate if the run's is `lr`; frozen groups have no entry."""
        self._rates = {
            name: (lr if group.schedule is None else group.schedule(updates)) * group.lr_scale
            for name, group in self.groups.items()
        }
        if not self._frozen:
            return self._rates
        return {name: rate for name, rate in self._rates.items() if name not in self._frozen}

    def step(
        self,
        rates: Mapping[str, float],
        model: Model,
        gradients: Gradients,
        closure: Closure | None = None,
        *,
        updates: int | None = None,
    ) -> Model:
        """`model` after one update of the groups in `rates`, each by its part of `gradients`.

        With `updates`, those completed, a group waits for its `every`-th; transformations get it.
        Raises: OwnershipError for a gradient without an owner; ValueError for a rate below 0, or a
        transformation without `updates`.
        """
        if min(rates.values(), default=0) < 0:
            raise errors.MismatchError(f"learning rates {rates}: correct those below 0")
        is_whole = gradients.keys() == self.parameters.keys()
        if not is_whole and not gradients.keys() <= self.parameters.keys():
            name = next(name for name in gradients if name not in self.parameters)
            raise errors.OwnershipError(
                f"parameter {name!r} has a gradient but no owner: requires_grad was False when the "
                "groups were made; leave it True, in a group with frozen=<updates>"
            )
        for optimizer, groups in self.owned.items():
            stepped = [
                group for group in groups
                if group.name in rates and (updates is None or not (updates + 1) % group.every)
            ]  # fmt: skip
            if not stepped:
                continue
            is_all = len(stepped) == len(groups) and len(optimizer.parameters) == len(gradients)
            part = gradients if is_whole and is_all else part_of(gradients, stepped)
            if self._has_transforms:
                part = transformed(part, stepped, updates)
            if not part:
                continue
            again = None
            if closure is not None and optimizer.needs_closure:
                again = partial(recomputed_part, closure, stepped, updates)
            lr: Any = rates[groups[0].name] if len(groups) == 1 else [
                rates.get(group.name, self._rates.get(group.name, 0.0)) for group in groups
            ]  # fmt: skip
            model = optimizer.step(lr, model, part, again)
        return model

    def expect(self, schedule: Schedule, num_updates: int) -> None:
        """Constructs classes of other packages with the peaks of their groups' rates.

        Raises: ValueError if a peak is unknown.
        """
        for optimizer, groups in self.owned.items():
            if optimizer.held.needs_rate:
                peaks = (peak_rate(group.schedule or schedule, num_updates) for group in groups)
                optimizer.held.expect([peak * g.lr_scale for peak, g in zip(peaks, groups)])

    def thaw(self, updates: int) -> None:
        """Unfreezes the groups whose `frozen_updates` are over."""
        over = {name for name in self.waiting if self.groups[name].frozen_updates <= updates}
        if over:
            self.waiting -= over
            self._freeze(self._frozen - over)

    def prove(self) -> None:
        """Checks that every trained parameter has exactly one owner.

        Raises: OwnershipError naming the first that has none or two, or whose owner is frozen.
        """
        owners = defaultdict[Tensor, list[str]](list)
        for group in self.groups.values():
            for tensor in group.parameters.values():
                owners[tensor].append(group.name)
        for name, tensor in self._model.named_parameters():
            names = owners[tensor]
            if len(names) > 1:
                raise errors.OwnershipError(
                    f"parameter {name!r} has several owners: {', '.join(names)}; leave it to one"
                )
            if tensor.requires_grad and (not names or names[0] in self._frozen):
                why = f"its group {names[0]!r} is frozen" if names else "no group claims it"
                raise errors.OwnershipError(
                    f"parameter {name!r} is trained but belongs to no group: {why}; "
                    "give it to a group, or freeze it (requires_grad=False)"
                )

    def state_dict(self) -> dict[str, Tensor]:
        """The state of every optimizer as `<parameter>/<slot>` to tensor."""
        return {
            key: tensor
            for optimizer in self.optimizers
            for key, tensor in optimizer.state_dict().items()
        }

    def without_state(self, state: Tensors) -> list[str]:
        """The names of the parameters of an optimizer for which a saved state has nothing."""
        stateful = {key.rpartition("/")[0] for key in state}
        owned = (name for optimizer in self.optimizers for name in optimizer.parameters)
        return [name for name in owned if name not in stateful]

    def load_state_dict(self, state: Tensors) -> None:
        """Continues from a saved state.

        Raises: KeyError if the state is for a parameter without an owner.
        """
        names = {key: key.rpartition("/")[0] for key in state}
        for key, name in names.items():
            if name not in self.parameters:
                raise KeyError(f"saved optimizer state {key!r} is for no parameter of this model")
        for optimizer in self.optimizers:
            optimizer.load_state_dict(
                {key: state[key] for key in state if names[key] in optimizer.parameters}
            )

    def owners(self) -> dict[str, dict[str, Any]]:
        """Optimizer class and parameter names of each group; a saved state has to match."""
        return {
            name: {
                "optimizer": group.optimizer.name if group.optimizer else None,
                "parameters": list(group.parameters),
            }
            for name, group in self.groups.items()
        }

    def misfits(self, owners: Mapping[str, Named]) -> list[str]:
        """A line for each group that a state of these owners does not fit.

        A group that had no optimizer, as it never trained, fits: its optimizer begins anew.
        """
        now = self.owners()
        return [
            f"{name}: was {_owner(owners.get(name))}, is {_owner(now.get(name))}"
            for name in {**owners, **now}
            if name not in now
            or owners.get(name) not in (now[name], now[name] | {"optimizer": None})
        ]

    def continue_from(self, state: Mapping[str, Any]) -> None:
        """Restores which groups are frozen, and which of them will thaw, from a learner's state.

        Raises: OwnershipError listing the differences between saved and current owners.
        """
        if lines := self.misfits(owners := state["owners"]):
            raise errors.OwnershipError(
                "the checkpoint's optimizer state belongs to other owners; resume with the groups "
                "it was made with, or take its weights alone (start_from):\n  " + "\n  ".join(lines)
            )
        begun = {name for name, owner in self.owners().items() if owner != owners[name]}
        self.waiting = self.waiting & {*state.get("waiting", state["frozen"])} | begun
        self._freeze({*state["frozen"]})

    def evaluated(self) -> ExitStack:
        """A context in which the parameters are the weights to evaluate, save and export.

        It begins with the call; see `model_weights.swapped_in`.
        """
        with ExitStack() as stack:
            for optimizer in self.optimizers:
                stack.enter_context(optimizer.evaluated())
            return stack.pop_all()

    @property
    def has_evaluation_weights(self) -> bool:
        """Whether `evaluated` changes any weights."""
        return any(optimizer.has_evaluation_weights for optimizer in self.optimizers)

    def _freeze(self, names: set[str]) -> None:
        changed = names ^ self._frozen  # a flag that the user set on another group stays
        self._frozen = names
        for name in changed:
            for tensor in self.groups[name].parameters.values():
                tensor.requires_grad_(name not in names)
        groups = [self.groups[name] for name in names]
        still = [group.parameters for group in groups if not group.trains_statistics]
        self.frozen_modules.choose({t for parameters in still for t in parameters.values()})
        self.prove()


def _owner(owner: Named | None) -> str:
    if owner is None:
        return "absent"
    return f"{owner['optimizer'] or 'frozen'} of {readable.joined(owner['parameters'])}"
