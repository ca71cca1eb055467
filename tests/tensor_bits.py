"""Tensors by name, compared to the bit."""

from collections.abc import Mapping

import torch
from torch import Tensor


def same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def differing(actual: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> set[str]:
    """The names under which the two do not hold the same bits."""
    both = actual.keys() & expected.keys()
    return {name for name in both if not torch.equal(actual[name], expected[name])} | (
        actual.keys() ^ expected.keys()
    )


def bits(tensor: Tensor) -> tuple[torch.dtype, torch.Size, list[int]]:
    whole = tensor.clone(memory_format=torch.contiguous_format)
    return tensor.dtype, tensor.shape, whole.reshape(-1).view(torch.uint8).tolist()
