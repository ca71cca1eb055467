"""Batches of uneven sizes and another learning rate at every update."""

import functools

import torch
from torch import Tensor, nn
from torch.nn import functional

from andiron import randomness

SIZES = (7, 3, 5, 1)  # samples in a batch


@functools.cache
def batch(update: int) -> tuple[Tensor, Tensor]:
    size, stream = SIZES[update % len(SIZES)], randomness.stream(0, "batch", update)
    return torch.randn(size, 6, generator=stream), torch.randint(4, (size,), generator=stream)


def loss_of(model: nn.Module, update: int) -> Tensor:
    inputs, targets = batch(update)
    return functional.cross_entropy(model(inputs), targets)


def lr_at(update: int) -> float:
    return 0.002 * (1 + update % 7)
