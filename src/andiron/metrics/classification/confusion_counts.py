"""How often each class was right, predicted and true: the sums behind every decision score."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from andiron.metrics.classification.classifier_rows import BINARY, CLASSES, LABELS, Rows, rows
from andiron.protocols import Parts
from andiron.ranges import Proportion


@dataclass(frozen=True)
class Counts:
    """Counts of every class or label against the rest; of a binary item for its positive class."""

    kind: str
    true_positives: Float[Tensor, " classes"]
    predicted: Float[Tensor, " classes"]
    support: Float[Tensor, " classes"]  # how often it was the target
    total: Float[Tensor, " classes"]  # targets that count

    @property
    def true_negatives(self) -> Float[Tensor, " classes"]:
        return self.total - self.predicted - self.support + self.true_positives

    @property
    def present(self) -> Bool[Tensor, " classes"]:
        """The classes predicted or true at least once; the labels of which a target counts."""
        return (self.predicted + self.support if self.kind == CLASSES else self.total) > 0

    def both_sides(self) -> "Counts":
        """The counts of a binary item as those of two classes, negative and positive."""
        if self.kind != BINARY:
            return self
        total = self.total
        negative = (self.true_negatives, total - self.predicted, total - self.support, total)
        positive = (self.true_positives, self.predicted, self.support, total)
        return Counts(CLASSES, *(torch.cat(pair) for pair in zip(negative, positive, strict=True)))


@dataclass(kw_only=True)
class Counted:
    """A metric of the counts of every class; abstract.

    `threshold` is the probability above which a yes-or-no answer is yes.
    """

    threshold: Proportion = 0.5
    name: str = ""
    higher_is_better = True
    kinds: ClassVar[Sequence[str]] = ()  # of answers that it is defined for; empty for all

    def __call__(self, item: Any) -> Parts:
        """What a batch adds to the counts; nothing is read back from the device.

        The shape gives the kind: [3, classes], [4, labels], or [4] for a binary item; see
        `unpacked`. A target that is neither a class nor IGNORED raises.
        """
        measured = rows(item, self.name, *self.kinds)
        if measured.kind == CLASSES:
            return (_of_classes(measured),)
        return (_of_answers(measured, self.threshold),)


def unpacked(sums: Float[Tensor, "..."]) -> Counts:
    """The counts in the sum over batches."""
    if len(sums) == 3:
        right, predicted, true = sums
        return Counts(CLASSES, right, predicted, true, true.sum().expand_as(true))
    return Counts(BINARY if sums.ndim == 1 else LABELS, *sums.reshape(4, -1))


def divided(numerator: Tensor, denominator: Tensor) -> Tensor:
    """The ratio, 0 where numerator and denominator are."""
    return numerator / torch.where(denominator == 0, 1.0, denominator)


def _of_classes(measured: Rows) -> Int[Tensor, "3 classes"]:
    """One addition into all three rows; torch.bincount would read the largest index from a GPU."""
    classes = measured.logits.shape[-1]
    predictions, targets = measured.logits.argmax(-1), measured.indices()
    ones = measured.only(torch.ones_like(targets, dtype=torch.int32))
    right = ones * (predictions == targets)
    index = torch.cat([targets, predictions + classes, targets + 2 * classes])
    sums = torch.zeros(3 * classes, dtype=torch.int32, device=index.device)
    return sums.scatter_add_(0, index, torch.cat([right, ones, ones])).view(3, classes)


def _of_answers(measured: Rows, threshold: float) -> Int[Tensor, "4 ..."]:
    yes = measured.only(measured.decided(threshold))
    true = measured.indices() == 1
    total = torch.ones_like(true) if measured.counted is None else measured.counted
    return torch.stack([yes & true, yes, true, total]).sum(1)
