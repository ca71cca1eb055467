"""How often each class was right, predicted and true: sums from which every score of decisions is computed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from andiron.metrics.classification import class_averages
from andiron.metrics.classification.classifier_rows import BINARY, CLASSES, Kind, LABELS, Rows, rows
from andiron.protocols import Values


@dataclass(frozen=True)
class Counts:
    """Of every class or label, one against the rest. A binary item has one entry, the positive class."""

    kind: Kind
    true_positives: Float[Tensor, " classes"]
    predicted: Float[Tensor, " classes"]
    support: Float[Tensor, " classes"]  # how often it was the target
    total: Float[Tensor, " classes"]  # targets that count

    @property
    def true_negatives(self) -> Float[Tensor, " classes"]:
        return self.total - self.predicted - self.support + self.true_positives

    @property
    def present(self) -> Bool[Tensor, " classes"]:
        """Of classes, those predicted or true at least once; a label is there as soon as a target of it counts."""
        return (self.predicted + self.support if self.kind == CLASSES else self.total) > 0

    def both_sides(self) -> "Counts":
        """A binary item's as those of two classes, the negative and the positive; others as they are."""
        if self.kind != BINARY:
            return self
        negative = (
            self.true_negatives,
            self.total - self.predicted,
            self.total - self.support,
            self.total,
        )
        positive = (self.true_positives, self.predicted, self.support, self.total)
        return Counts(CLASSES, *(torch.cat(pair) for pair in zip(negative, positive, strict=True)))


Ratio = Callable[
    [Counts], tuple[Tensor, Tensor]
]  # numerator and denominator of every class, both linear in the counts


def counted(item: Any, threshold: float) -> Int[Tensor, "..."]:
    """What a batch adds to the counts, with nothing read back from the device.

    The shape tells the kind: [3, classes], [4, labels], or [4] of a binary item; see `unpacked`. A target that is neither
    a class nor IGNORED is an error.
    """
    measured = rows(item)
    return _of_classes(measured) if measured.kind == CLASSES else _of_answers(measured, threshold)


def unpacked(sums: Float[Tensor, "..."]) -> Counts:
    """The counts that batches add up to."""
    if sums.ndim == 1:
        right, predicted, true, total = sums[:, None]
        return Counts(BINARY, right, predicted, true, total)
    if len(sums) == 4:
        right, predicted, true, total = sums
        return Counts(LABELS, right, predicted, true, total)
    right, predicted, true = sums
    return Counts(CLASSES, right, predicted, true, true.sum().expand(len(true)))


def score(
    sums: Tensor, ratio: Ratio, *, average: str | None, class_names: Sequence[str] | None
) -> float | Values | None:
    """The ratio over the classes present; 0 where its denominator is (scikit-learn's `zero_division=0`).

    micro divides the sums over all classes; a binary item has its positive class's, whatever the average.
    """
    counts = unpacked(sums)
    numerator, denominator = ratio(counts)
    present = counts.present
    if average == "micro" or counts.kind == BINARY:
        return (
            float(divided(numerator[present].sum(), denominator[present].sum()))
            if present.any()
            else None
        )
    values = divided(numerator, denominator)
    return class_averages.averaged(
        values, average, support=counts.support, defined=present, class_names=class_names
    )


def divided(numerator: Tensor, denominator: Tensor) -> Tensor:
    """The ratio, 0 where both are."""
    return numerator / torch.where(denominator == 0, 1.0, denominator)


def _of_classes(measured: Rows) -> Int[Tensor, "3 classes"]:
    """One addition into all three rows. torch.bincount would do, but makes a GPU wait for the largest index."""
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
