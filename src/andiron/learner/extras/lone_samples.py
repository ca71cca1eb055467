"""Before the first update: refuses a batch of one sample that BatchNorm cannot train on, and names
a network that was left in evaluation mode.
"""

import itertools
import logging
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from andiron import errors, inference
from andiron.distributed import Sliced, World
from andiron.protocols import Loader, batch_size_of

REFUSAL = "Expected more than 1 value per channel"  # torch's
log = logging.getLogger("andiron")


def refused(
    batches: Iterator[object], train: Loader, model: nn.Module, world: World, is_whole: bool
) -> Iterator[Any]:
    """The batches; the network is tried on one sample first, if a batch of the epoch has one.

    The last batch counts if the epoch `is_whole`; in a divided `world` each slice is a batch.
    Weights, buffers and generators stay as they are.
    Raises: MismatchError with the batch sizes.
    """
    _warn_of_evaluation_mode(model)
    number, slices = train.num_items, world.num_slices
    size = min(batch_size_of(train) or number, number)
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


def _warn_of_evaluation_mode(model: nn.Module) -> None:
    """Names a part of several layers that trains as `from_pretrained` of transformers leaves it."""
    for name, module in model.named_modules():
        if not module.training and [*module.children()]:
            if any(parameter.requires_grad for parameter in module.parameters()):
                log.warning("%s trains in evaluation mode: no dropout, and the statistics of "
                            "BatchNorm stay; call its train() first if that is not meant", name)
                return


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
