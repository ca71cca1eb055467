"""Metrics of a network that names a token at each place of a sequence."""

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
    """exp(mean loss of a token), over all tokens that count: how many the network hesitates between.

    It is that where the loss is the cross entropy in nats, with no smoothing and no further term.
    """

    name: str = "perplexity"
    higher_is_better = False
    gathers = False

    def __call__(self, item: Any) -> tuple[Tensor, Tensor]:
        return _summed_loss(item)

    def value(self, *parts: Tensor) -> float | None:
        total, count = parts
        return float((total / count).exp()) if count else None


@dataclass(kw_only=True)
class BitsPerByte:
    """The sum of the losses of all tokens in bits, by the bytes of the text they stand for.

    Unlike perplexity, it can be compared between tokenizers. The loss is the cross entropy in nats, as for Perplexity.
    """

    name: str = "bits_per_byte"
    higher_is_better = False

    def __call__(self, item: Any) -> tuple[Tensor, Tensor | int]:
        num_bytes: Tensor | int | None = getattr(item, "num_bytes", None)
        if num_bytes is None:
            raise errors.DataError(
                f"{self.name}: {type(item).__name__} does not tell how many bytes of text its targets stand for; "
                f"give it num_bytes, or leave the metric out: ~metrics.{self.name}"
            )
        return _summed_loss(item)[0] / math.log(2), num_bytes


@dataclass(kw_only=True)
class CharacterErrorRate:
    """The edits that turn the tokens named into the targets, by the number of targets; above 1 if there are more edits.

    Where targets are IGNORED, what was named there is left out too; from the first `end` on, either side is.
    Operations on the device for every place of a sequence; nothing is read from it.
    """

    end: Index | None = None  # a token
    name: str = "character_error_rate"
    higher_is_better = False

    def __call__(self, item: Any) -> tuple[Tensor, Tensor]:
        (named, named_lengths), (targets, lengths) = _named_and_targets(item, self.end)
        edits = edit_distance.levenshtein(
            named, targets, a_lengths=named_lengths, b_lengths=lengths
        )
        return edits, lengths.sum()


@dataclass(kw_only=True)
class WordErrorRate:
    """The edits, in whole words, that turn the tokens named into the targets, by the number of words in the targets.

    A word is what stands between separators; several of them part as one does. The rest as for CharacterErrorRate.
    """

    separator: Index | Annotated[Sequence[Index], Field(min_length=1)]  # a token, or several
    end: Index | None = None  # a token
    name: str = "word_error_rate"
    higher_is_better = False

    def __call__(self, item: Any) -> tuple[Tensor, Tensor]:
        separators = [self.separator] if isinstance(self.separator, int) else self.separator
        named, targets = (
            edit_distance.words(*side, separators) for side in _named_and_targets(item, self.end)
        )
        edits = edit_distance.levenshtein(
            named[0], targets[0], a_lengths=named[1], b_lengths=targets[1]
        )
        return edits, targets[1].sum()


Tokens = tuple[
    Int[Tensor, "batch time"], Int[Tensor, " batch"]
]  # in rows, the first so many of each


def _summed_loss(item: Any) -> tuple[Tensor, Tensor]:
    """The sum of -log p over the tokens and their number; of a batch that counts nothing the mean is no number.

    That is the loss, unless the item tells it apart because its loss is something else.
    """
    nll = getattr(item, "nll", None)
    mean, weight = (
        (item.loss, outputs.loss_weight(item)) if nll is None else (nll, outputs.num_targets(item))
    )
    count = weight if isinstance(weight, Tensor) else mean.new_full((), weight, dtype=torch.float32)
    return torch.where(count == 0, 0.0, mean.float() * count), count


def _named_and_targets(item: Any, end: int | None) -> tuple[Tokens, Tokens]:
    counted = item.targets != IGNORED
    named, targets = item.output.argmax(dim=-1), item.targets.long()
    return _until(end, named, counted), _until(end, targets, counted)


def _until(
    end: int | None, tokens: Int[Tensor, "batch time"], counted: Bool[Tensor, "batch time"]
) -> Tokens:
    if end is not None:
        counted = counted & (((tokens == end) & counted).cumsum(dim=1) == 0)
    return edit_distance.kept(tokens, counted)
