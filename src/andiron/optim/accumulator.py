"""The gradients of a large batch as the weighted mean over its micro-batches."""

import torch
from torch import Tensor

from andiron.gradients import Gradients


class GradientsAccumulator:
    """Sums the gradients of micro-batches; `mean` gives those of one large batch, to rounding.

    The weight of a micro-batch is what its loss is a mean over (samples, tokens), so that a short
    one counts less. A micro-batch that does not reach a parameter adds nothing to its gradient.
    """

    def __init__(self) -> None:
        self._first: Gradients | None = None
        self._sums: dict[str, Tensor] = {}
        self._loss: Tensor | None = None
        self._weights: list[float | Tensor] = []

    def __len__(self) -> int:
        """The number of micro-batches added."""
        return len(self._weights)

    def add(self, gradients: Gradients, weight: float | Tensor = 1) -> None:
        """Adds one micro-batch; its tensors may be overwritten."""
        self._weights.append(weight)
        if self._first is None:
            self._first = gradients
            return
        if len(self._weights) == 2:
            self._add_weighted(self._first, self._weights[0])
        self._add_weighted(gradients, weight)

    def mean(self) -> Gradients:
        """The weighted mean of the micro-batches added since the last one.

        Raises: ValueError if there are none.
        """
        first, sums, loss, weights = self._first, self._sums, self._loss, self._weights
        self._first, self._sums, self._loss, self._weights = None, {}, None, []
        if first is None:
            raise ValueError(
                "no micro-batch was added: there is no mean; add the gradients of one first"
            )
        if len(weights) == 1:  # multiplying and dividing would round
            return first
        total = sum(weights[1:], start=weights[0])
        torch._foreach_div_(list(sums.values()), total)
        mean = first.replaced(sums)
        mean.loss = None if loss is None else loss / total
        return mean

    def _add_weighted(self, gradients: Gradients, weight: float | Tensor) -> None:
        torch._foreach_mul_(list(gradients.values()), weight)
        known = [name for name in gradients if name in self._sums]
        if known:
            torch._foreach_add_(
                [self._sums[name] for name in known], [gradients[name] for name in known]
            )
        self._sums |= {name: gradients[name] for name in gradients if name not in self._sums}
        if gradients.loss is not None:
            weighted = gradients.loss * weight
            self._loss = weighted if self._loss is None else self._loss + weighted
