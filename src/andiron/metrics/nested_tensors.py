"""Nested values as plain ones and tensors by name, and back."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

TENSOR, TUPLE = "tensor", "tuple"  # keys of the objects that stand for one


def packed(value: Any) -> tuple[Any, dict[str, Tensor]]:
    """The value with every tensor replaced by its name and device, and the tensors by those names."""
    tensors: dict[str, Tensor] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, Tensor):
            name = str(len(tensors))
            tensors[name] = value.detach()
            return {TENSOR: name, "device": value.device.type}
        if isinstance(value, tuple):
            return {TUPLE: [plain(inner) for inner in value]}
        if isinstance(value, list):
            return [plain(inner) for inner in value]
        return (
            {name: plain(inner) for name, inner in value.items()}
            if isinstance(value, dict)
            else value
        )

    return plain(value), tensors


def unpacked(plain: Any, tensors: Mapping[str, Tensor], device: torch.device) -> Any:
    """What `packed` was given; a tensor that was not on the CPU comes to `device`."""
    if isinstance(plain, list):
        return [unpacked(inner, tensors, device) for inner in plain]
    if not isinstance(plain, dict):
        return plain
    if TENSOR in plain:
        tensor = tensors[plain[TENSOR]]
        return tensor.clone() if plain["device"] == "cpu" else tensor.to(device)
    return tuple(unpacked(inner, tensors, device) for inner in plain[TUPLE])
