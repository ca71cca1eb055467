"""Metrics of a network that predicts a token at each place of a sequence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from jaxtyping import Bool, Int
from pydantic import Field
from torch import Tensor

from andiron import errors, outputs
from andiron.metrics.sequence import edit_distance
from andiron.outputs import IGNORED
from andiron.ranges import Index


@dataclass(kw_only=True)
class Perplexity:
    """exp(mean -log p of a token) over all tokens that count, in nats.

    An item gives -log p as `nll` where its loss has other terms, such as smoothing.
    """

    name: str = "perplexity"
    higher_is_better = False

    def __call__(self, item: Any) -> tuple[Tensor, Tensor]:
        return _summed_loss(item)

    def value(self, *parts: Tensor) -> float | None:
        total, count = parts
        return float((total / count).exp()) if count else None


@dataclass(kw_only=True)
class BitsPerByte:
    """The sum of -log2 p over all tokens, divided by the bytes of the text they stand for.

    Unlike perplexity it can be compared between tokenizers.
    """

    name: str = "bits_per_byte"
    higher_is_better = False

    def __call__(self, item: Any) -> tuple[Tensor, Tensor | int]:
        num_bytes: Tensor | int | None = getattr(item, "num_bytes", None)
        if num_bytes is None:
            remedy = f"give it num_bytes, or leave the metric out: ~metrics.{self.name}"
            item_class = type(item).__name__
            raise errors.DataError(
                f"{self.name}: {item_class} does not say how many bytes its targets have; {remedy}"
            )
        return _summed_loss(item)[0] / math.log(2), num_bytes


@dataclass(kw_only=True)
class CharacterErrorRate:
    """The edits from the predicted tokens to the targets, divided by the number of targets.

    It can be above 1. Places with IGNORED targets are left out, and on either side everything from
    the first `end` token on. It runs on the device, an operation for every place of a sequence.
    """

    end: Index | None = None  # a token
    name: str = "character_error_rate"
    higher_is_better = False

    def __call__(self, item: Any) -> tuple[Tensor, Tensor]:
        (predicted, predicted_lengths), (targets, lengths) = _predicted_and_targets(item, self.end)
        edits = edit_distance.levenshtein(
            predicted, targets, a_lengths=predicted_lengths, b_lengths=lengths
        )
        return edits, lengths.sum()


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

    def __call__(self, item: Any) -> tuple[Tensor, Tensor]:
        separators = [self.separator] if isinstance(self.separator, int) else self.separator
        predicted, targets = (
            edit_distance.words(*side, separators)
            for side in _predicted_and_targets(item, self.end)
        )
        edits = edit_distance.levenshtein(
            predicted[0], targets[0], a_lengths=predicted[1], b_lengths=targets[1]
        )
        return edits, targets[1].sum()


# rows of tokens, and how many of each row count
Tokens = tuple[Int[Tensor, "batch time"], Int[Tensor, " batch"]]


def _summed_loss(item: Any) -> tuple[Tensor, Tensor]:
    """The sum of -log p over the tokens that count, and their number."""
    nll = getattr(item, "nll", None)  # None where it is the loss
    mean = item.loss if nll is None else nll
    weight = outputs.loss_weight(item) if nll is None else outputs.num_targets(item)
    count = weight if isinstance(weight, Tensor) else mean.new_full((), weight, dtype=torch.float32)
    # the mean over no tokens is NaN
    return torch.where(count == 0, 0.0, mean.float() * count), count


def _predicted_and_targets(item: Any, end: int | None) -> tuple[Tokens, Tokens]:
    known = item.targets != IGNORED
    predicted, targets = item.output.argmax(dim=-1), item.targets.long()
    return _until(end, predicted, known), _until(end, targets, known)


def _until(
    end: int | None, tokens: Int[Tensor, "batch time"], known: Bool[Tensor, "batch time"]
) -> Tokens:
    if end is not None:
        known = known & (((tokens == end) & known).cumsum(dim=1) == 0)
    return edit_distance.to_front(tokens, known)
