"""Metrics of a network that predicts a token at each position of a sequence."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from andiron import errors, outputs
from andiron.metrics.sequence import edit_distance
from andiron.metrics.sequence.edit_distance import Rows
from andiron.outputs import IGNORED
from andiron.protocols import Parts
from andiron.ranges import Index


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
                f"it num_bytes, or leave the metric out: ~metrics.{self.name}"
            )
        return _summed_loss(item)[0] / math.log(2), num_bytes


@dataclass(kw_only=True)
class CharacterErrorRate:
    """The edits from the predicted tokens to the targets, divided by the number of targets.

    It can be above 1. Positions with IGNORED targets are left out, and in both sequences everything
    from the first `end` token on. It runs on the device, one operation for every position.
    """

    end: Index | None = None  # a token
    name: str = "character_error_rate"
    higher_is_better = False

    def __call__(self, item: object) -> Parts:
        return _edits(*_predicted_and_targets(item, self.end))


@dataclass(kw_only=True)
class WordErrorRate:
    """The edits of whole words from prediction to target, divided by the words in the target.

    Words are the tokens between separators; adjacent separators count as one. Otherwise as
    CharacterErrorRate.
    """

    separator: Index | Annotated[Sequence[Index], Field(min_length=1)]  # tokens
    end: Index | None = None  # a token
    name: str = "word_error_rate"
    higher_is_better = False

    def __call__(self, item: object) -> Parts:
        separators = [self.separator] if isinstance(self.separator, int) else self.separator
        sides = _predicted_and_targets(item, self.end)
        return _edits(*(edit_distance.words(side, separators) for side in sides))


def _summed_loss(item: Any) -> tuple[Tensor, Tensor]:
    """The sum of -log p over the tokens that count, and their number."""
    nll = getattr(item, "nll", None)  # None where it is the loss
    mean = item.loss if nll is None else nll
    weight = outputs.loss_weight(item) if nll is None else outputs.num_targets(item)
    count = weight if isinstance(weight, Tensor) else mean.new_full((), weight, dtype=torch.float32)
    # the mean over no tokens is NaN
    return torch.where(count == 0, 0.0, mean.float() * count), count


def _predicted_and_targets(item: Any, end: int | None) -> Iterator[Rows]:
    """Predictions and targets up to the first `end`, without IGNORED positions."""
    for tokens in (outputs.likeliest(item.output), item.targets.long()):
        keep = item.targets != IGNORED
        if end is not None:
            keep &= ((tokens == end) & keep).cumsum(dim=1) == 0
        yield edit_distance.to_front(tokens, keep)


def _edits(predicted: Rows, targets: Rows) -> Parts:
    """The edits of each row, and the number of targets."""
    return edit_distance.levenshtein(predicted, targets), targets[1].sum()
