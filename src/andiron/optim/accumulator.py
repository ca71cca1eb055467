"""The gradients of a batch that is too large to take at once: the weighted mean over its micro-batches."""

import torch
from torch import Tensor

from andiron.gradients import Gradients


class GradientsAccumulator:
    """Adds up the gradients of micro-batches; `mean` gives those of one large batch, to rounding.

    The weight of a micro-batch is what its loss is a mean over (its samples, its tokens), so that a short one counts
    for less. A parameter that some micro-batches do not reach gets nothing from them, as in the large batch.
    """

    def __init__(self) -> None:
        self._first: Gradients | None = None
        self._sums: dict[str, Tensor] = {}
        self._loss: Tensor | None = None
        self._weights: list[float | Tensor] = []

    def __len__(self) -> int:
        """How many micro-batches were added."""
        return len(self._weights)

    def add(self, gradients: Gradients, weight: float | Tensor = 1) -> None:
        """Adds one micro-batch; its tensors are no longer the caller's to change."""
        self._weights.append(weight)
        if self._first is None:
            self._first = gradients
            return
        if len(self._weights) == 2:
            self._add_weighted(self._first, self._weights[0])
        self._add_weighted(gradients, weight)

    def mean(self) -> Gradients:
        """The mean over what was added, the sum of weights as denominator; nothing is held afterwards.

        Raises: ValueError if nothing was added.
        """
        first, sums, loss, weights = self._first, self._sums, self._loss, self._weights
        self._first, self._sums, self._loss, self._weights = None, {}, None, []
        if first is None:
            raise ValueError(
                "no micro-batch was added: there is no mean; add the gradients of one first"
            )
        if len(weights) == 1:  # untouched: not multiplied and divided again
            return first
        total = sum(weights[1:], start=weights[0])
        torch._foreach_div_(list(sums.values()), total)
        mean = first.replaced(sums)
        mean.loss = None if loss is None else loss / total
        return mean

    def _add_weighted(self, gradients: Gradients, weight: float | Tensor) -> None:
        tensors = list(gradients.values())
        torch._foreach_mul_(tensors, weight)
        known = [name for name in gradients if name in self._sums]
        if known:
            torch._foreach_add_(
                [self._sums[name] for name in known], [gradients[name] for name in known]
            )
        self._sums |= {name: gradients[name] for name in gradients if name not in self._sums}
        if gradients.loss is not None:
            weighted = gradients.loss * weight
            self._loss = weighted if self._loss is None else self._loss + weighted
