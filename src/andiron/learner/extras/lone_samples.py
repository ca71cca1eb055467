"""Refuses a batch of one sample that BatchNorm cannot train on, before the first update."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from andiron import errors, inference
from andiron.distributed import Sliced, World
from andiron.protocols import Loader

REFUSAL = "Expected more than 1 value per channel"  # torch's


def refused(
    batches: Iterator[Any], train: Loader, model: nn.Module, world: World, is_whole: bool
) -> Iterator[Any]:
    """The same batches; the network is tried on one sample first, if a batch of the epoch has one.

    The last batch counts if the epoch `is_whole`; in a divided `world` each slice is a batch.
    Weights, buffers and generators stay as they are.
    Raises: MismatchError with the batch sizes.
    """
    number, slices = train.num_items, world.num_slices
    size = min(getattr(train, "batch_size", None) or number, number)
    last = (number - 1) % size + 1 if is_whole else size
    if 1 not in (size // slices, -(-size // slices), last // slices, -(-last // slices)):
        return batches
    ahead = list(itertools.islice(batches, 1))
    if not ahead:  # a resume at the epoch's end
        return batches
    first = ahead[0]
    batch = next(iter(first.values())) if isinstance(first, Sliced) else first
    inputs = getattr(batch, "inputs", None)
    if isinstance(inputs, Tensor) and hasattr(model, "network"):  # others take what they like
        _try(model, inputs[:1], f"{number} samples in batches of {size}")
    return itertools.chain(ahead, batches)


def _try(model: nn.Module, inputs: Tensor, described: str) -> None:
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    devices = [inputs.device] if inputs.is_cuda else []
    try:
        with torch.no_grad(), torch.random.fork_rng(devices), inference.uncompiled():
            torch.func.functional_call(model, buffers, (inputs,))
    except (ValueError, RuntimeError) as error:  # any other problem is explained by the update
        if REFUSAL in str(error):
            raise errors.MismatchError(
                f"batch_size: {described}: a batch, or its slice, has a single sample, and the "
                "model's BatchNorm trains on two or more; choose another batch_size, or GroupNorm"
            ) from error
