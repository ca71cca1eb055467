"""Weighted sums of gradients and their losses, in place."""

import math
from collections.abc import Container
from typing import Any, TypeGuard

import torch
from torch import Tensor

from andiron.gradients import Gradients
from andiron.outputs import Weight
from andiron.plain import fast_paths, private_torch


def multiply(gradients: Gradients, weight: Weight, *, only_loss: bool = False) -> None:
    """Multiplies all gradients in place, and their loss."""
    if gradients and not only_loss:
        private_torch.foreach_mul_(list(gradients.values()), weight)
    if gradients.loss is not None:
        gradients.loss = gradients.loss * weight


def divide(gradients: Gradients, divisor: Weight) -> None:
    """Divides gradients and their loss in place.

    A power of two is divided by in the operation that also looks for inf and NaN, which saves the
    pass of `all_finite`: multiplying by the reciprocal gives the same bits.
    """
    if gradients.loss is not None:
        gradients.loss = gradients.loss.clone()  # it may be an item's
    tensors = gradients.with_loss
    if not tensors:
        return
    device = tensors[0].device
    is_power = not isinstance(divisor, Tensor) and math.frexp(divisor)[0] == 0.5
    has_operation = device.type != "mps" and all(
        tensor.is_floating_point() and tensor.layout is torch.strided and tensor.device == device
        for tensor in tensors
    )
    if not (is_power and has_operation and fast_paths.on["checked division"]):
        private_torch.foreach_div_(tensors, divisor)
        return
    gradients.found_inf = torch.zeros((), device=device)
    reciprocal = torch.full((), 1 / float(divisor), device=device)
    private_torch.unscale_and_check_(tensors, gradients.found_inf, reciprocal)


def zero_uncounted(gradients: Gradients, weight: Weight, besides: Container[str] = ()) -> None:
    """Makes zeros, in place, if the weight is 0: the mean over no targets may be NaN.

    Not of the names `besides`; on a GPU without waiting for the weight.
    """
    is_empty: Any = weight == 0
    is_unknown = is_on_gpu(weight)
    if not is_unknown and not is_empty:
        return
    for name, tensor in gradients.items():
        if name in besides:
            continue
        if is_unknown and not tensor.is_sparse:
            tensor.masked_fill_(is_empty, 0.0)
        elif is_empty:
            tensor.zero_()
    if (loss := gradients.loss) is not None:  # it may be an item's
        gradients.loss = loss.masked_fill(is_empty, 0.0) if is_unknown else loss.new_zeros(())


def is_on_gpu(weight: object) -> TypeGuard[Tensor]:
    """Whether reading the weight waits for a device."""
    return isinstance(weight, Tensor) and weight.device.type != "cpu"


def add_up(total: Gradients, gradients: Gradients) -> None:
    """Adds gradients and their loss to `total` in place; a missing entry adds nothing."""
    shared = [name for name in gradients if name in total]
    if shared:
        added = [gradients[name] for name in shared]
        private_torch.foreach_add_([total[name] for name in shared], added)
    total.update({name: gradients[name] for name in gradients if name not in total})
    if gradients.loss is not None:
        total.loss = gradients.loss if total.loss is None else total.loss + gradients.loss
