"""The gradients of a large batch as the weighted mean over its micro-batches."""

import math

import torch
from torch import Tensor

from andiron.gradients import Gradients
from andiron.plain import fast_paths, private_torch


class GradientsAccumulator:
    """Sums the gradients of micro-batches; `mean` equals one large batch's, to rounding.

    The weight of a micro-batch is the number of samples or tokens its loss is a mean over, so that
    a short one counts less. A micro-batch without a gradient for a parameter adds nothing to it.
    """

    def __init__(self) -> None:
        self._sum: Gradients | None = None
        self._weights: list[float | Tensor] = []

    def __len__(self) -> int:
        """The number of micro-batches added."""
        return len(self._weights)

    def add(self, gradients: Gradients, weight: float | Tensor = 1) -> None:
        """Adds one micro-batch; the accumulator then owns its gradients and may overwrite them."""
        self._weights.append(weight)
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
        self._sum, self._weights = None, []
        if mean is None:
            raise ValueError(
                "no micro-batch was added, so there is no mean; add gradients first"
            )
        if len(weights) > 1:  # multiplying and dividing the only one would round
            divide(mean, sum(weights[1:], start=weights[0]))
        return mean


def multiply(gradients: Gradients, weight: float | Tensor) -> None:
    """Multiplies all gradients and their loss in place."""
    if gradients:
        private_torch.foreach_mul_(list(gradients.values()), weight)
    if gradients.loss is not None:
        gradients.loss = gradients.loss * weight


def divide(gradients: Gradients, divisor: float | Tensor) -> None:
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
        each.is_floating_point() and each.layout is torch.strided and each.device == device
        for each in tensors
    )
    if not (is_power and has_operation and fast_paths.on["checked division"]):
        private_torch.foreach_div_(tensors, divisor)
        return
    gradients.found_inf = torch.zeros((), device=device)
    reciprocal = torch.full((), 1 / float(divisor), device=device)
    private_torch.unscale_and_check_(tensors, gradients.found_inf, reciprocal)


def add_up(total: Gradients, gradients: Gradients) -> None:
    """Adds gradients and their loss to `total` in place; a missing entry adds nothing."""
    shared = [name for name in gradients if name in total]
    if shared:
        added = [gradients[name] for name in shared]
        private_torch.foreach_add_([total[name] for name in shared], added)
    total.update({name: gradients[name] for name in gradients if name not in total})
    if gradients.loss is not None:
        total.loss = gradients.loss if total.loss is None else total.loss + gradients.loss
