"""The state that computing an update changes before the update is known to be finite."""

import copy
from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, nn

from andiron.optim import model_weights
from andiron.optim.grouped import GroupedOptimizer

Buffer = tuple[Any, str, Tensor]  # the mapping that holds it, its name there, and itself


class StateBefore:
    """Buffers, such as running statistics; weights and optimizer state if a step moves them
    while it evaluates the loss several times. `restore` brings them back, bit for bit.
    """

    def __init__(self, buffers: list[Buffer], optimizer: GroupedOptimizer):
        self._optimizer = optimizer
        self._buffers = buffers
        self._values = _copies([buffer for *_, buffer in buffers])
        self._weights: dict[str, Tensor] = {}
        if optimizer.needs_closure:
            parameters = optimizer.parameters
            self._weights = dict(zip(parameters, _copies([*parameters.values()]), strict=True))
            self._state = copy.deepcopy(optimizer.state_dict())

    @classmethod
    def of(cls, model: nn.Module, optimizer: GroupedOptimizer) -> "StateBefore | None":
        """The state now; None if there is none to bring back."""
        buffers = _buffers(model, [])
        return cls(buffers, optimizer) if buffers or optimizer.needs_closure else None

    def restore(self) -> None:
        """Brings the state back; a buffer that was replaced is the former tensor again."""
        for (owner, name, buffer), value in zip(self._buffers, self._values, strict=True):
            owner[name] = buffer
            with torch.no_grad():
                buffer.copy_(value)
        if self._weights:
            model_weights.copy(self._weights, self._optimizer.parameters)
            self._optimizer.load_state_dict(self._state)


def _buffers(module: nn.Module, found: list[Buffer]) -> list[Buffer]:
    """Each buffer below the module."""
    if own := module._buffers:
        found += [(own, name, buffer) for name, buffer in own.items() if buffer is not None]
    for child in module._modules.values():
        if child is not None:
            _buffers(child, found)
    return found


def _copies(tensors: list[Tensor]) -> list[Tensor]:
    """Copies of the tensors, made by one operation for each kind of tensor."""
    copies = [torch.empty_like(tensor, requires_grad=False) for tensor in tensors]
    kinds = defaultdict[Any, list[int]](list)
    for place, tensor in enumerate(tensors):
        kinds[tensor.dtype, tensor.device].append(place)
    with torch.no_grad():
        for places in kinds.values():
            torch._foreach_copy_([copies[p] for p in places], [tensors[p] for p in places])
    return copies
