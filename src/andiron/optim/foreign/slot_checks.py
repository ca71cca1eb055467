"""Checks the slots of a saved optimizer state: their names, shapes and dtypes.

A kernel addresses the slots of a parameter like the parameter itself: a slot of another shape or
dtype makes it read and write out of bounds. A saved state must have the slots that one step leaves
for a parameter of the same shape. A class of another package checks its own.
"""

import math
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from andiron.gradients import Gradients, Tensors
from andiron.optim import model_weights
from andiron.optim.grouped import GroupedOptimizer
from andiron.optim.own.flat_state import GROUP
from andiron.optim.optimizer import TRAINED, Optimizer
from andiron.optim.own.flat_state import COUNTERS, LENGTH, NUMBER, TEXT

MOST_ITEMS = 10_000  # of a list in a slot; LBFGS has its history size
MOST_STEPS = 2**53


def problems(
    optimizer: GroupedOptimizer, state: Tensors, saved: Mapping[str, Any]
) -> Iterator[str]:
    """A line for each reason why `state`, with the plain values `saved`, fits no such optimizer."""
    names = {key: key.rpartition("/")[0] for key in state}
    for key, name in names.items():
        if name not in optimizer.parameters:
            yield f"{key!r} is for no parameter of this model"
    for inner in optimizer.optimizers:
        own = {key: state[key] for key in state if names[key] in inner.parameters}
        yield from _slot_problems(inner, own)
    stateless = without_state(optimizer, state)
    yield from (f"{name!r} has no state" for name in stateless if name not in saved["stateless"])
    groups = optimizer.groups
    first_steps = [group.frozen_updates + group.every for group in groups.values()]
    if not state and saved["updates"] > max(first_steps):
        yield from (f"{o.name} has no state" for o in optimizer.optimizers if _needs_state(o))
    frozen = {*saved["frozen"]}
    if frozen - groups.keys() or not groups.keys() - frozen:
        yield f"frozen are {', '.join(sorted(frozen))}, of {', '.join(groups)}"


def without_state(optimizer: GroupedOptimizer, state: Tensors) -> list[str]:
    """The names of the owned parameters without a saved state."""
    stateful = {key.rpartition("/")[0] for key in state}
    owned = (name for inner in optimizer.optimizers for name in inner.parameters)
    return [name for name in owned if name not in stateful]


def _slot_problems(optimizer: Optimizer, state: Tensors) -> Iterator[str]:
    """A line for each slot that is missing, unknown, or not as after a step."""
    if not optimizer.is_own:
        trained = {key: state[key] for key in state if key.endswith(f"/{TRAINED}")}
        named = optimizer.parameters if state and optimizer.has_evaluation_weights else {}
        weights = {f"{name}/{TRAINED}": parameter for name, parameter in named.items()}
        yield from model_weights.differences(trained, weights)
        return
    after_step = cache(partial(_slots_after_step, optimizer))
    expected: dict[str, Tensor] = {}
    for key, tensor in state.items():
        name, _, slot = key.rpartition("/")
        parameter = optimizer.parameters[name]
        first, known = optimizer.group_of(name)
        own_slots, group_slots = after_step(
            first, parameter.shape, parameter.dtype, parameter.device
        )
        if slot.startswith(GROUP):
            expected |= {key: tensor} if slot in known | group_slots else {}
            continue
        is_allowed = not own_slots and _is_plausible(tensor, parameter, optimizer)
        expected |= {key: tensor} if is_allowed else {}
        expected |= {f"{name}/{other}": each for other, each in own_slots.items()}
        if slot.endswith(TEXT) and not (
            slot in own_slots and torch.equal(tensor, own_slots[slot])
        ):
            yield f"{key!r} is not the text that a step leaves"
    yield from model_weights.differences(state, expected)
    for key, tensor in state.items():
        yield from _count_problems(key, key.rpartition("/")[2].removeprefix(GROUP), tensor)


def _needs_state(optimizer: Optimizer) -> bool:
    """Whether a step leaves a state that only a step can create.

    SGD creates a missing momentum, so that it can be switched on later.
    """
    if not optimizer.is_own:
        return False
    name, first = next(iter(optimizer.parameters.items()))
    slots, _ = _slots_after_step(optimizer, name, first.shape, first.dtype, first.device)
    return bool(slots) and optimizer.name != "torch.optim.SGD"


def _is_plausible(tensor: Tensor, parameter: nn.Parameter, optimizer: Optimizer) -> bool:
    """Whether each dimension is 1, one of the parameter's, or the total element count."""
    total = sum(each.numel() for each in optimizer.parameters.values())
    return {*tensor.shape} <= {*parameter.shape, 1, parameter.numel(), total}


def _count_problems(key: str, slot: str, tensor: Tensor) -> Iterator[str]:
    """A line for each counter or length that no step can have left."""
    if slot.endswith((NUMBER, LENGTH)) and tensor.shape != ():
        yield f"{key!r} has the shape {list(tensor.shape)}; it is one number"
    elif slot.endswith(LENGTH) or slot.removesuffix(NUMBER) in COUNTERS:
        most = MOST_ITEMS if slot.endswith(LENGTH) else MOST_STEPS
        value = float(tensor.real.double().max()) if tensor.numel() else 0.0
        if not math.isfinite(value) or not 0 <= value <= most:
            yield f"{key!r} is {value:g}; it counts, from 0 to {most:,}"


def _slots_after_step(
    optimizer: Optimizer, name: str, shape: torch.Size, dtype: torch.dtype, device: torch.device
) -> tuple[Tensors, set[str]]:
    """The slots of such a parameter after a step, without values but of texts, and of its group.

    Empty if a step needs more than gradients. It costs the time and memory of a step.
    """
    if optimizer.needs_closure or optimizer.takes_sparse_gradients:
        return {}, set()
    ones = torch.ones(shape, dtype=dtype, device=device)
    model = nn.Module()
    model.register_parameter("parameter", nn.Parameter(ones))
    stepped = optimizer.like(model, name)
    stepped.step(1.0, model, Gradients({"parameter": ones.clone()}, model))
    slots = {key.rpartition("/")[2]: each for key, each in stepped.state_dict().items()}
    group_slots = {slot for slot in slots if slot.startswith(GROUP)}
    return {
        slot: each if slot.endswith(TEXT) else each.to("meta")
        for slot, each in slots.items()
        if slot not in group_slots
    }, group_slots
