"""Whether a saved state is one that an optimizer can have: its slots, their shapes and dtypes.

A kernel addresses the slots of a parameter as it does the parameter: with a slot of another shape
or dtype it reads and writes beyond its memory. What a class keeps for a parameter is seen on a
small stand-in of it, which is stepped once.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from andiron.gradients import Gradients, Tensors
from andiron.optim.flat_state import COUNTERS, LENGTH, NUMBER
from andiron.optim.grouped import GroupedOptimizer
from andiron.optim.optimizer import GROUP, Optimizer

STAND_IN = "parameter"
SIZES = (2, 3, 5, 7, 11, 13, 17, 19)  # of the dimensions of a stand-in: which is which is seen
MOST_ITEMS = 10_000  # of a list in a slot; LBFGS has as many as its history
MOST_STEPS = 2**53
Form = tuple[torch.dtype, tuple[int, ...]]


def problems(
    optimizer: GroupedOptimizer, state: Tensors, saved: Mapping[str, Any]
) -> Iterator[str]:
    """What keeps `state` from being one of these optimizers, beside the plain values `saved`."""
    names = {key: key.rpartition("/")[0] for key in state}
    for key, name in names.items():
        if name not in optimizer.parameters:
            yield f"{key!r} is for no parameter of this model"
    for each in optimizer.optimizers:
        own = {key: state[key] for key in state if names[key] in each.parameters}
        yield from _of_optimizer(each, own)
    stateless = without_state(optimizer, state)
    yield from (f"{name!r} has no state" for name in stateless if name not in saved["stateless"])
    groups = optimizer.groups
    first_steps = [group.frozen_updates + group.every for group in groups.values()]
    if not state and saved["updates"] > max(first_steps):
        yield from (f"{each.name} has no state" for each in optimizer.optimizers if _keeps(each))
    frozen = {*saved["frozen"]}
    if frozen - groups.keys() or not groups.keys() - frozen:
        yield f"frozen are {', '.join(sorted(frozen))}, of {', '.join(groups)}"


def without_state(optimizer: GroupedOptimizer, state: Tensors) -> list[str]:
    """The names of the parameters with an optimizer that have no state in a saved one."""
    stateful = {key.rpartition("/")[0] for key in state}
    owned = (name for each in optimizer.optimizers for name in each.parameters)
    return [name for name in owned if name not in stateful]


def _of_optimizer(optimizer: Optimizer, state: Tensors) -> Iterator[str]:
    """What keeps slots from being those of this optimizer, a line for each."""
    slots: dict[str, dict[str, Tensor]] = {name: {} for name in optimizer.parameters}
    for key, tensor in state.items():
        name, _, slot = key.rpartition("/")
        if name in slots:
            slots[name][slot] = tensor
    options = {name + NUMBER for name in optimizer.group_numbers}
    forms: dict[Any, dict[str, Form] | None] = {}
    for name, found in slots.items():
        of_group = {slot.removeprefix(GROUP) for slot in found if slot.startswith(GROUP)}
        for option in sorted(of_group - options):
            yield f"'{name}/{GROUP}{option}' is no number of {optimizer.name}"
        parameter = optimizer.parameters[name]
        kind = tuple(parameter.shape), parameter.dtype
        if kind not in forms:
            forms[kind] = _forms(optimizer, parameter)
        own = {slot: each for slot, each in found.items() if not slot.startswith(GROUP)}
        yield from _of_parameter(optimizer, name, own, forms[kind])
        for slot, tensor in found.items():
            yield from _in_values(f"{name}/{slot}", slot.removeprefix(GROUP), tensor)


def _keeps(optimizer: Optimizer) -> bool:
    """Whether a step leaves a state for the first parameter, which nothing but the step needs.

    SGD starts a missing momentum, so that it can be switched on later.
    """
    first = next(iter(optimizer.parameters.values()))
    return bool(_forms(optimizer, first)) and optimizer.name != "torch.optim.SGD"


def _of_parameter(
    optimizer: Optimizer, name: str, found: Tensors, forms: Mapping[str, Form] | None
) -> Iterator[str]:
    """The slots of one parameter against their forms; without forms, or for a foreign class's own,
    by what is known of all slots."""
    parameter = optimizer.parameters[name]
    for slot in sorted(forms.keys() - found.keys()) if forms and found else ():
        yield f"'{name}/{slot}' is missing"
    is_open = forms is None or not optimizer.name.startswith("torch.optim.")
    for slot, tensor in found.items():
        form = forms.get(slot) if forms else None
        found_form = tensor.dtype, tuple(tensor.shape)
        if form is None and not is_open:
            yield f"'{name}/{slot}' is no slot of {optimizer.name}"
        elif form is not None and found_form != form:
            yield f"'{name}/{slot}' is {_shown(found_form)}, not {_shown(form)}"
        elif form is None and not _is_plausible(tensor, parameter, optimizer):
            expected = _shown((parameter.dtype, tuple(parameter.shape)))
            yield f"'{name}/{slot}' is {_shown(found_form)}, and the parameter {expected}"


def _is_plausible(tensor: Tensor, parameter: nn.Parameter, optimizer: Optimizer) -> bool:
    """Whether its sizes are those of the parameter, 1, or the number of all elements."""
    total = sum(each.numel() for each in optimizer.parameters.values())
    return {*tensor.shape} <= {*parameter.shape, 1, parameter.numel(), total}


def _in_values(key: str, slot: str, tensor: Tensor) -> Iterator[str]:
    """Counters and lengths that no step can have left."""
    if slot.endswith((NUMBER, LENGTH)) and tensor.shape != ():
        yield f"{key!r} is {_shown((tensor.dtype, tuple(tensor.shape)))}, not one number"
    elif slot.endswith(LENGTH) or slot.removesuffix(NUMBER) in COUNTERS:
        most = MOST_ITEMS if slot.endswith(LENGTH) else MOST_STEPS
        value = float(tensor.real.double().max()) if tensor.numel() else 0.0
        if not math.isfinite(value) or not 0 <= value <= most:
            yield f"{key!r} is {value:g}; it counts, from 0 to {most:,}"


def _forms(optimizer: Optimizer, parameter: nn.Parameter) -> dict[str, Form] | None:
    """The dtype and shape of each slot after a step; None where a step needs more than gradients.
    """
    if optimizer.needs_closure or optimizer.takes_sparse_gradients:
        return None
    sizes = {size: real for size, real in zip(SIZES, parameter.shape, strict=False) if real > 1}
    small = [
        size if real > 1 else real for size, real in zip(SIZES, parameter.shape, strict=False)
    ]
    holder = nn.Module()
    values = torch.ones(small, dtype=parameter.dtype, device=parameter.device)
    holder.register_parameter(STAND_IN, nn.Parameter(values))
    stand_in = optimizer.like(holder)
    stand_in.step(1.0, holder, Gradients({STAND_IN: torch.ones_like(values)}, holder))
    slots = {key.rpartition("/")[2]: each for key, each in stand_in.state_dict().items()}
    return {
        slot: (tensor.dtype, tuple(sizes.get(size, size) for size in tensor.shape))
        for slot, tensor in slots.items()
        if not slot.startswith(GROUP)
    }


def _shown(form: Form) -> str:
    dtype, shape = form
    return f"{str(dtype).removeprefix('torch.')} {list(shape)}"
