"""Checks a saved optimizer state: for each parameter the slots that a step of its class leaves.

A kernel addresses the slots of a parameter like the parameter itself: a slot of another shape or
dtype makes it read and write out of bounds. A class of another package checks its own slots. The
slots of LBFGS and SparseAdam, which no step with these gradients leaves, are taken as saved.
"""

from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from andiron.gradients import Gradients, Tensors
from andiron.optim import model_weights
from andiron.optim.grouped import GroupedOptimizer
from andiron.optim.optimizer import TRAINED, Optimizer
from andiron.optim.own.flat_state import COUNTERS, GROUP, LENGTH, NUMBER

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
    idle = (owner["parameters"] for owner in saved["owners"].values() if not owner["optimizer"])
    stateless = {*optimizer.without_state(state)}.difference(saved["stateless"], *idle)
    yield from (f"{name!r} has no state" for name in sorted(stateless))
    groups, frozen = optimizer.groups.keys(), {*saved["frozen"]}
    if frozen - groups or not groups - frozen:
        yield f"frozen are {', '.join(sorted(frozen))}, of {', '.join(groups)}"


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
        number, parameter = optimizer.number_of(name), optimizer.parameters[name]
        slots = after_step(number, parameter.shape, parameter.dtype, parameter.device)
        expected |= {f"{name}/{other}": slot for other, slot in slots.items()}
        options = optimizer.held.slots.option_slots(number)
        if slot in options if slot.startswith(GROUP) else not slots:
            expected[key] = tensor
        yield from _count_problems(key, slot.removeprefix(GROUP), tensor)
    yield from model_weights.differences(state, expected)


def _count_problems(key: str, slot: str, tensor: Tensor) -> Iterator[str]:
    """A line for a number or length of another type, or that no step can have left."""
    is_counter = slot.removesuffix(NUMBER) in COUNTERS
    if not (is_counter or slot.endswith((NUMBER, LENGTH))):
        return
    if tensor.shape != ():
        yield f"{key!r} has the shape {list(tensor.shape)}; it is one number"
    elif is_counter or slot.endswith(LENGTH):
        value, most = float(tensor.real), MOST_STEPS if is_counter else MOST_ITEMS
        if not 0 <= value <= most:
            yield f"{key!r} is {value:g}; it counts, from 0 to {most:,}"


def _slots_after_step(
    optimizer: Optimizer, number: int, shape: torch.Size, dtype: torch.dtype, device: torch.device
) -> Tensors:
    """The slots, without values, of such a parameter of a group after a step.

    Empty if a step needs more than gradients. It costs the time and memory of a step.
    """
    if optimizer.needs_closure or optimizer.takes_sparse_gradients:
        return {}
    ones = torch.ones(shape, dtype=dtype, device=device)
    model = nn.Module()
    model.register_parameter("parameter", nn.Parameter(ones))
    stepped = Optimizer(optimizer.kind, model, **optimizer.held.options(number))
    stepped.step(1.0, model, Gradients({"parameter": ones.clone()}, model))
    slots = stepped.state_dict().items()
    return {key.rpartition("/")[2]: tensor.to("meta") for key, tensor in slots}
