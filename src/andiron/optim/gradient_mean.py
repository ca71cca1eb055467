"""The mean gradients of an update over its micro-batches, and the sums behind it, in place.

The weight of a batch is the count its loss is a mean over. A step returns it in `TrainOutput`, and
gives it to `backward` where processes are to add up gradients early. A step of weight 0, in which
no target counts, adds zeros and no loss, whatever its loss is.
The mean over slices and processes is `divided/sliced_mean.py`. Another strategy, such as sharded
gradients, is another `Reduction`, chosen by `Updater.reduction`.
"""

import math
from collections.abc import Container, Iterable, Sequence
from itertools import count, repeat
from typing import Any, Protocol, TypeGuard, runtime_checkable

import torch
from torch import Tensor

from andiron.gradients import During, Gradients
from andiron.outputs import Weight
from andiron.plain import fast_paths, private_torch


@runtime_checkable
class Reduction(Protocol):
    """The steps of one update and the weighted mean of their gradients."""

    @property
    def during_backward(self) -> During | None:
        """The context of a `backward` with a weight, in which gradients are exchanged, if any."""

    def steps(self, batches: Sequence[Any]) -> Iterable[tuple[int, tuple[int, ...], Any]]:
        """Micro-batch, slice and batch of each step; `add` each before taking the next."""

    def add(self, gradients: Gradients, weight: Weight = 1) -> None:
        """Adds a step, and then owns its gradients and may overwrite them."""

    def mean(self) -> Gradients:
        """The weighted mean over the steps of all processes."""

    def by_batch(self, items: list[Any]) -> list[Any]:
        """The items of the steps for each micro-batch."""


class GradientsAccumulator:
    """Sums the gradients of micro-batches; `mean` equals one large batch's, to rounding.

    The weight of a micro-batch is the number of samples or tokens its loss is a mean over, so that
    a short one counts less. A micro-batch without a gradient for a parameter adds nothing to it.
    """

    during_backward = None
    _sum: Gradients | None = None
    _weights: tuple[Weight, ...] = ()

    def steps(self, batches: Sequence[Any]) -> Iterable[tuple[int, tuple[int, ...], Any]]:
        """Number and batch of each micro-batch, which is not sliced."""
        return zip(count(), repeat(()), batches)

    def add(self, gradients: Gradients, weight: Weight = 1, fixed: Container[str] = ()) -> None:
        """Adds one micro-batch; the accumulator then owns its gradients and may overwrite them.

        A weight of 0 leaves the gradients of `fixed` parameters alone, which are zeros already.
        """
        self._weights += (weight,)
        if isinstance(weight, Tensor) or not weight:
            zero_uncounted(gradients, weight, fixed)
        if self._sum is None:
            self._sum = gradients
            return
        if len(self._weights) == 2:
            multiply(self._sum, self._weights[0])
        multiply(gradients, weight)
        add_up(self._sum, gradients)

    def mean(self) -> Gradients:
        """The weighted mean of the micro-batches added since the last one.

        Raises: ValueError if there are none.
        """
        mean, weights = self._sum, self._weights
        self._sum, self._weights = None, ()
        if mean is None:
            raise ValueError(
                "no micro-batch was added, so there is no mean; add gradients first"
            )
        if len(weights) > 1:  # multiplying and dividing the only one would round
            total = sum(weights[1:], start=weights[0])
            divide(mean, total + (total == 0))
        return mean

    def by_batch(self, items: list[Any]) -> list[Any]:
        """The items as they are."""
        return items

    def sums(self, device: torch.device, *, only_loss: bool) -> tuple[Gradients, Tensor] | None:
        """The weighted sum of what was added, and the sum of the weights; None for nothing.

        With `only_loss` the gradients of the only micro-batch are multiplied already.
        """
        if self._sum is None:
            return None
        if len(self._weights) == 1:
            multiply(self._sum, self._weights[0], only_loss=only_loss)
        total = torch.zeros((), device=device)
        for weight in self._weights:
            total = total + torch.as_tensor(weight, dtype=torch.float32, device=device)
        return self._sum, total


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
