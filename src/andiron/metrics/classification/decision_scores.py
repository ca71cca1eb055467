"""Precision, recall, F-beta and specificity, class by class or averaged.

Each is a ratio of counts, 0 where the denominator is 0 (scikit-learn's `zero_division=0`).
`average`: "micro" divides the sums over all classes, "macro" is the mean over the classes,
"weighted" their mean weighted by how often each is the target, "none" (or None) the value of every
class by name. Averages are over the classes that were predicted or true at least once,
scikit-learn's `labels=None`; for multi-label items over all labels. For a binary item the score is
that of the positive class, scikit-learn's `average="binary"`. `threshold` is the probability above
which a yes-or-no answer is yes. The value is None where nothing was counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from andiron.metrics.classification.class_averages import averaged
from andiron.metrics.classification.classifier_rows import BINARY
from andiron.metrics.classification.confusion_counts import Counted, Counts, divided, unpacked
from andiron.protocols import Result
from andiron.ranges import Average, Positive


Ratio = tuple[Tensor, Tensor]  # numerator and denominator for every class


@dataclass(kw_only=True)
class Score(Counted):
    """A ratio of the counts of every class; abstract: see `ratio`."""

    average: Average | None = "macro"
    class_names: Sequence[str] | None = None

    def value(self, sums: Tensor) -> Result:
        counts = unpacked(sums)
        (numerator, denominator), present = self.ratio(counts), counts.present
        if self.average == "micro" or counts.kind == BINARY:
            total = divided(numerator[present].sum(), denominator[present].sum())
            return float(total) if present.any() else None
        scores = torch.where(present, divided(numerator, denominator), torch.nan)
        return averaged(scores, self.average, counts.support, self.class_names)

    def ratio(self, counts: Counts) -> Ratio:
        """Both linear in the counts."""
        raise NotImplementedError


@dataclass(kw_only=True)
class Precision(Score):
    """TP / (TP + FP): the fraction of the predicted that is true."""

    name: str = "precision"

    def ratio(self, counts: Counts) -> Ratio:
        return counts.true_positives, counts.predicted


@dataclass(kw_only=True)
class Recall(Score):
    """TP / (TP + FN), or sensitivity: the fraction of the true that was predicted."""

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
        self.name = self.name or f"f{self.beta:g}"

    def ratio(self, counts: Counts) -> Ratio:
        return f_beta(counts, self.beta)


@dataclass(kw_only=True)
class Specificity(Score):
    """TN / (TN + FP): the fraction of the not true that was not predicted."""

    name: str = "specificity"

    def ratio(self, counts: Counts) -> Ratio:
        return counts.true_negatives, counts.total - counts.support


def f_beta(counts: Counts, beta: float) -> Ratio:
    """Numerator and denominator: TP + FP is what was predicted, TP + FN what is true."""
    denominator = beta**2 * counts.support + counts.predicted
    return (1 + beta**2) * counts.true_positives, denominator
