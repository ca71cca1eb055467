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
from typing import Any

from torch import Tensor

from andiron.metrics.classification import confusion_counts
from andiron.metrics.classification.confusion_counts import Counts
from andiron.protocols import Values
from andiron.ranges import Average, Positive, Proportion


@dataclass(kw_only=True)
class Score:
    """A ratio of the counts of every class; abstract: see `ratio`."""

    average: Average | None = "macro"
    threshold: Proportion = 0.5
    class_names: Sequence[str] | None = None
    name: str = ""
    higher_is_better = True

    def __call__(self, item: Any) -> tuple[Tensor]:
        return (confusion_counts.counted(item, self.threshold),)

    def value(self, *parts: Tensor) -> float | Values | None:
        counts = confusion_counts.unpacked(parts[0])
        names = self.class_names
        return confusion_counts.score(counts, self.ratio(counts), self.average, names)

    def ratio(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Numerator and denominator for every class, both linear in the counts."""
        raise NotImplementedError


@dataclass(kw_only=True)
class Precision(Score):
    """TP / (TP + FP): the fraction of the predicted that is true."""

    name: str = "precision"

    def ratio(self, counts: Counts) -> tuple[Tensor, Tensor]:
        return counts.true_positives, counts.predicted


@dataclass(kw_only=True)
class Recall(Score):
    """TP / (TP + FN), or sensitivity: the fraction of the true that was predicted."""

    name: str = "recall"

    def ratio(self, counts: Counts) -> tuple[Tensor, Tensor]:
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

    def ratio(self, counts: Counts) -> tuple[Tensor, Tensor]:
        return f_beta(counts, self.beta)


@dataclass(kw_only=True)
class Specificity(Score):
    """TN / (TN + FP): the fraction of the not true that was not predicted."""

    name: str = "specificity"

    def ratio(self, counts: Counts) -> tuple[Tensor, Tensor]:
        return counts.true_negatives, counts.total - counts.support


def f_beta(counts: Counts, beta: float) -> tuple[Tensor, Tensor]:
    """Numerator and denominator: TP + FP is what was predicted, TP + FN what is true."""
    denominator = beta**2 * counts.support + counts.predicted
    return (1 + beta**2) * counts.true_positives, denominator
