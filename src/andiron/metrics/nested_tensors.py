"""Nested values split into plain ones and tensors by name, as a checkpoint saves them, and back.

>>> plain, tensors = split_tensors([(torch.tensor(3.0), 2)])
>>> plain, [*tensors]
([{'tuple': [{'tensor': '0', 'device': 'cpu'}, 2]}], ['0'])
>>> join_tensors(plain, tensors, torch.device("cpu"))
[(tensor(3.), 2)]
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

TENSOR, TUPLE = "tensor", "tuple"  # the keys of objects that stand for one


def split_tensors(value: Any) -> tuple[Any, dict[str, Tensor]]:
    """The value with a name and device in place of each tensor, and the tensors by those names."""
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
        if isinstance(value, dict):
            return {name: plain(inner) for name, inner in value.items()}
        return value

    return plain(value), tensors


def join_tensors(plain: Any, tensors: Mapping[str, Tensor], device: torch.device) -> Any:
    """The value given to `split_tensors`; a tensor that was not on the CPU is moved to `device`."""
    if isinstance(plain, list):
        return [join_tensors(inner, tensors, device) for inner in plain]
    if not isinstance(plain, dict):
        return plain
    if TENSOR in plain:
        tensor = tensors[plain[TENSOR]]
        return tensor.clone() if plain["device"] == "cpu" else tensor.to(device)
    return tuple(join_tensors(inner, tensors, device) for inner in plain[TUPLE])
