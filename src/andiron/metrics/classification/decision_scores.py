"""Precision, recall, F-beta and specificity, and the counts of every class behind such scores.

Each score is a ratio of counts, 0 where the denominator is 0 (scikit-learn's `zero_division=0`).
`average`: "micro" divides the sums over all classes, "macro" is the mean over the classes,
"weighted" their mean weighted by how often each is the target, "none" (or None) the value of every
class by name. Averages are over the classes that were predicted or true at least once,
scikit-learn's `labels=None`; for multi-label items over all labels. For a binary item the score is
the positive class's, scikit-learn's `average="binary"`. `threshold` is the probability above
which a yes-or-no answer is yes. With `top_k` the classes with the k largest logits are all
predicted, k of them for each target. The value is None where nothing was counted.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from andiron import errors, outputs
from andiron.metrics.classification.classifier_rows import (
    BINARY, CLASSES, LABELS, Rows, averaged, rows,
)  # fmt: skip
from andiron.protocols import Parts, Result
from andiron.ranges import Average, Count, Positive, Proportion

Classes = Float[Tensor, " classes"]
Ratio = tuple[Classes, Classes]  # numerator and denominator


@dataclass(frozen=True)
class Counts:
    """Counts of every class or label against the rest; of a binary item for its positive class."""

    kind: str
    true_positives: Classes
    predicted: Classes
    support: Classes  # how often it was the target
    total: Classes  # targets that count

    @property
    def true_negatives(self) -> Classes:
        return self.total - self.predicted - self.support + self.true_positives

    @property
    def present(self) -> Bool[Tensor, " classes"]:
        """The classes predicted or true at least once; the labels of which a target counts."""
        return (self.predicted + self.support if self.kind == CLASSES else self.total) > 0

    def both_sides(self) -> "Counts":
        """The counts of a binary item as two classes, negative and positive."""
        if self.kind != BINARY:
            return self
        total = self.total
        negative = (self.true_negatives, total - self.predicted, total - self.support, total)
        positive = (self.true_positives, self.predicted, self.support, total)
        return Counts(CLASSES, *map(torch.cat, zip(negative, positive, strict=True)))


@dataclass(kw_only=True)
class Counted(ABC):
    """A metric of the counts of every class, the `top_k` likeliest predicted; abstract.

    `threshold` is the probability above which a yes-or-no answer is yes. Of equal logits the first
    wins, as in TopKAccuracy.
    Raises: ValueError if top_k is above a known number of classes.
    """

    threshold: Proportion = 0.5
    name: str = ""
    higher_is_better = True
    top_k: Count = 1
    num_classes: int | None = None

    def __post_init__(self) -> None:
        if self.num_classes is not None and self.top_k > max(1, self.num_classes):
            raise ValueError(
                f"top_k={self.top_k}: should be at most {self.num_classes}, the number of classes"
            )

    def __call__(self, item: Any) -> Parts:
        """The counts of a batch; nothing is read back from the device.

        The shape gives the kind: [3, classes], [4, labels], or [4] for a binary item; see
        `unpacked`. A target that is neither a class nor IGNORED raises.
        """
        allowed = () if self.top_k == 1 else (CLASSES,)
        measured = rows(item, f"{self.name} with top_k={self.top_k}", *allowed)
        if measured.kind == CLASSES:
            return (_of_classes(measured, self._predictions(measured)),)
        yes = measured.only(measured.decided(self.threshold))
        true = measured.indices() == 1
        total = torch.ones_like(true) if measured.counted is None else measured.counted
        return (torch.stack([yes & true, yes, true, total]).sum(1),)

    @abstractmethod
    def value(self, sums: Tensor) -> Result:
        """The metric's value, from the sum of the counts."""

    def _predictions(self, measured: Rows) -> Int[Tensor, "rows predictions"]:
        """The predicted classes of each row: those with the largest logits, -1 for NaN."""
        if self.top_k == 1:
            return outputs.likeliest(measured.logits)[:, None]
        classes = measured.logits.shape[-1]
        if self.top_k > classes:
            raise errors.MismatchError(
                f"{self.name}: top_k={self.top_k}: there are {classes} classes; give a smaller one"
            )
        # not topk, whose order of equal logits is undefined
        order = measured.logits.argsort(dim=-1, descending=True, stable=True)[:, : self.top_k]
        return order.masked_fill(measured.logits.isnan().any(-1, keepdim=True), -1)


@dataclass(kw_only=True)
class Score(Counted):
    """A ratio of the counts of every class; abstract: see `ratio`."""

    average: Average | None = "macro"
    class_names: outputs.ClassNames = None

    def value(self, sums: Tensor) -> Result:
        counts = unpacked(sums)
        (numerator, denominator), present = self.ratio(counts), counts.present
        if self.average == "micro" or counts.kind == BINARY:
            total = divided(numerator[present].sum(), denominator[present].sum())
            return float(total) if present.any() else None
        scores = torch.where(present, divided(numerator, denominator), torch.nan)
        return averaged(scores, self.average, counts.support, self.class_names)

    @abstractmethod
    def ratio(self, counts: Counts) -> Ratio:
        """Both linear in the counts."""


@dataclass(kw_only=True)
class Precision(Score):
    """TP / (TP + FP): the fraction of predicted positives that are true."""

    name: str = "precision"

    def ratio(self, counts: Counts) -> Ratio:
        return counts.true_positives, counts.predicted


@dataclass(kw_only=True)
class Recall(Score):
    """TP / (TP + FN), or sensitivity: the fraction of positives that were predicted."""

    name: str = "recall"

    def ratio(self, counts: Counts) -> Ratio:
        return counts.true_positives, counts.support


@dataclass(kw_only=True)
class FBeta(Score):
    """(1 + b^2) TP / ((1 + b^2) TP + b^2 FN + FP): precision and recall, recall weighted by b^2.

    The name is f1, f2, f0.5 by default.
    Source: van Rijsbergen 1979, "Information Retrieval", chapter 7.
    """

    beta: Positive = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.name = self.name or f"f{self.beta:g}"

    def ratio(self, counts: Counts) -> Ratio:
        return f_beta(counts, self.beta)


@dataclass(kw_only=True)
class Specificity(Score):
    """TN / (TN + FP): the fraction of negatives that were not predicted."""

    name: str = "specificity"

    def ratio(self, counts: Counts) -> Ratio:
        return counts.true_negatives, counts.total - counts.support


def f_beta(counts: Counts, beta: float) -> Ratio:
    """Numerator and denominator: TP + FP is what was predicted, TP + FN what is true."""
    denominator = beta**2 * counts.support + counts.predicted
    return (1 + beta**2) * counts.true_positives, denominator


def unpacked(sums: Float[Tensor, "..."]) -> Counts:
    """The counts in the sum over batches."""
    if len(sums) == 3:
        right, predicted, true = sums
        return Counts(CLASSES, right, predicted, true, true.sum().expand_as(true))
    return Counts(BINARY if sums.ndim == 1 else LABELS, *sums.reshape(4, -1))


def divided(numerator: Tensor, denominator: Tensor) -> Tensor:
    """The ratio; 0 / 0 is 0."""
    return numerator / torch.where(denominator == 0, 1.0, denominator)


def _of_classes(
    measured: Rows, predictions: Int[Tensor, "rows predictions"]
) -> Int[Tensor, "3 classes"]:
    """One addition into all three rows; torch.bincount would read the largest index from a GPU."""
    classes, targets = measured.logits.shape[-1], measured.indices()
    ones = measured.only(torch.ones_like(targets, dtype=torch.int32))
    right = ones * (predictions == targets[:, None]).any(-1)
    predicted = (ones[:, None] * (predictions >= 0)).flatten()
    places = predictions.clamp(0).flatten() + classes
    index = torch.cat([targets, places, targets + 2 * classes])
    sums = torch.zeros(3 * classes, dtype=torch.int32, device=index.device)
    return sums.scatter_add_(0, index, torch.cat([right, predicted, ones])).view(3, classes)
