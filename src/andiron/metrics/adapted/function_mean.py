"""A metric that is the mean of a user's function of the item.

>>> metric = Mean(lambda item: item.output.abs(), higher_is_better=False, name="size")
>>> metric.name
'size'
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from andiron.plain import readable


class Mean:
    """The mean of `of(item)`, which gives a tensor of values, or (total, count) of the batch.

    A configuration gives the dotted name of the function `of`. The metric's name is by default the
    function's. No value is best with `higher_is_better` None, such as of a weight of the loss.
    """

    def __init__(
        self, of: Callable[[Any], Any], *, higher_is_better: bool | None, name: str | None = None
    ):
        self.of = of
        self.higher_is_better = higher_is_better
        self.name = name or readable.name_of(self.of)

    def __call__(self, item: object) -> tuple[Tensor, Tensor | int]:
        """(total, count) of one batch.

        Raises: TypeError if the function gives anything else.
        """
        result = self.of(item)
        if isinstance(result, Tensor) and result.ndim > 0:
            is_half = result.is_floating_point() and result.dtype.itemsize < 4  # loses digits
            return result.float() if is_half else result, result.numel()
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Tensor):
            return result
        is_number = isinstance(result, Tensor | float | int)
        outcome = "a single number" if is_number else type(result).__name__
        raise TypeError(
            f"{self.name}: the function gives {outcome} for a batch; return a tensor with a value "
            "for each sample, or (total, count), so that a short batch has a smaller weight"
        )
