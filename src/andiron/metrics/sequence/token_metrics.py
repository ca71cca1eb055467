"""Metrics of a network that predicts a token at each position of a sequence."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from andiron import errors, outputs
from andiron.protocols import Parts


@dataclass(kw_only=True)
class Perplexity:
    """exp(mean -log p of a token) over all tokens that count, in nats.

    An item gives -log p as `nll` if its loss has other terms, such as smoothing.
    """

    name: str = "perplexity"
    higher_is_better = False

    def __call__(self, item: object) -> Parts:
        return _summed_loss(item)

    def value(self, total: Tensor, count: Tensor) -> float | None:
        return float((total / count).exp()) if count else None


@dataclass(kw_only=True)
class BitsPerByte:
    """The sum of -log2 p over all tokens, divided by the bytes of the text they stand for.

    Unlike perplexity it can be compared between tokenizers.
    """

    name: str = "bits_per_byte"
    higher_is_better = False

    def __call__(self, item: object) -> Parts:
        num_bytes = getattr(item, "num_bytes", None)
        if num_bytes is None:
            raise errors.DataError(
                f"{self.name}: {type(item).__name__} has no number of bytes of its targets; give "
                "it num_bytes, or leave the metric out, on the command line by "
                f"~metrics.{self.name}"
            )
        return _summed_loss(item)[0] / math.log(2), num_bytes


def _summed_loss(item: Any) -> tuple[Tensor, Tensor]:
    """The sum of -log p over the tokens that count, and their number."""
    nll = getattr(item, "nll", None)  # None where it is the loss
    mean = item.loss if nll is None else nll
    weight = outputs.loss_weight(item) if nll is None else outputs.num_targets(item)
    count = weight if isinstance(weight, Tensor) else mean.new_full((), weight, dtype=torch.float32)
    # the mean over no tokens is NaN
    return torch.where(count == 0, 0.0, mean.float() * count), count
