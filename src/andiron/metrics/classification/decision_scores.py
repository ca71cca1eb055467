"""Scores of decisions, class by class: precision, recall, F-beta and specificity.

Each is a ratio of counts, 0 where there is nothing to divide by (scikit-learn's `zero_division=0`). `average`: "micro"
divides the sums over all classes, "macro" is the mean of the classes', "weighted" their mean by how often each is the
target, "none" (or None) every class's own, by name. Averages are over the classes that were predicted or true at least
once, scikit-learn's `labels=None`; over all labels where any number may be true. A binary item has the score of its positive
class, scikit-learn's `average="binary"`. `threshold` is the probability above which an answer is yes; where a class is
chosen among several it has no part. Nothing counted is None.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from andiron.metrics.classification import class_averages, confusion_counts
from andiron.metrics.classification.confusion_counts import Counts
from andiron.metrics.classification.classifier_rows import check_threshold
from andiron.protocols import Values
from andiron.ranges import Average, Positive, Proportion


@dataclass(kw_only=True)
class Precision:
    """TP / (TP + FP): of what was predicted, how much is true."""

    average: Average | None = "macro"
    threshold: Proportion = 0.5
    class_names: Sequence[str] | None = None
    name: str = "precision"
    higher_is_better = True
    gathers = False

    def __post_init__(self) -> None:
        _check(self.average, self.threshold)

    def __call__(self, item: Any) -> tuple[Tensor]:
        return (confusion_counts.counted(item, self.threshold),)

    def value(self, *parts: Tensor) -> float | Values | None:
        return confusion_counts.score(
            parts[0], _precision, average=self.average, class_names=self.class_names
        )


@dataclass(kw_only=True)
class Recall:
    """TP / (TP + FN), also called sensitivity: of what is true, how much was predicted."""

    average: Average | None = "macro"
    threshold: Proportion = 0.5
    class_names: Sequence[str] | None = None
    name: str = "recall"
    higher_is_better = True
    gathers = False

    def __post_init__(self) -> None:
        _check(self.average, self.threshold)

    def __call__(self, item: Any) -> tuple[Tensor]:
        return (confusion_counts.counted(item, self.threshold),)

    def value(self, *parts: Tensor) -> float | Values | None:
        return confusion_counts.score(
            parts[0], _recall, average=self.average, class_names=self.class_names
        )


@dataclass(kw_only=True)
class FBeta:
    """(1 + b^2) TP / ((1 + b^2) TP + b^2 FN + FP), the harmonic mean of precision and recall that weighs recall by b^2.

    Without a name of its own it is f1, f2, f0.5.
    Source: van Rijsbergen 1979, "Information Retrieval", chapter 7.
    """

    beta: Positive = 1.0
    average: Average | None = "macro"
    threshold: Proportion = 0.5
    class_names: Sequence[str] | None = None
    name: str = ""
    higher_is_better = True
    gathers = False

    def __post_init__(self) -> None:
        _check(self.average, self.threshold)
        if not 0 < self.beta < math.inf:
            raise ValueError(
                f"beta={self.beta}: should be a finite number above 0; 1 weighs precision and recall alike"
            )
        self.name = self.name or f"f{self.beta:g}"

    def __call__(self, item: Any) -> tuple[Tensor]:
        return (confusion_counts.counted(item, self.threshold),)

    def value(self, *parts: Tensor) -> float | Values | None:
        return confusion_counts.score(
            parts[0], self._ratio, average=self.average, class_names=self.class_names
        )

    def _ratio(self, of: Counts) -> tuple[Tensor, Tensor]:
        return f_beta(of, self.beta)


@dataclass(kw_only=True)
class Specificity:
    """TN / (TN + FP): of what is not true, how much was not predicted; the recall of the rest."""

    average: Average | None = "macro"
    threshold: Proportion = 0.5
    class_names: Sequence[str] | None = None
    name: str = "specificity"
    higher_is_better = True
    gathers = False

    def __post_init__(self) -> None:
        _check(self.average, self.threshold)

    def __call__(self, item: Any) -> tuple[Tensor]:
        return (confusion_counts.counted(item, self.threshold),)

    def value(self, *parts: Tensor) -> float | Values | None:
        return confusion_counts.score(
            parts[0], _specificity, average=self.average, class_names=self.class_names
        )


def f_beta(of: Counts, beta: float) -> tuple[Tensor, Tensor]:
    """Numerator and denominator; TP + FP is what was predicted, TP + FN what is true."""
    return (1 + beta**2) * of.true_positives, beta**2 * of.support + of.predicted


def _precision(of: Counts) -> tuple[Tensor, Tensor]:
    return of.true_positives, of.predicted


def _recall(of: Counts) -> tuple[Tensor, Tensor]:
    return of.true_positives, of.support


def _specificity(of: Counts) -> tuple[Tensor, Tensor]:
    return of.true_negatives, of.total - of.support


def _check(average: str | None, threshold: float) -> None:
    class_averages.check_average(average)
    check_threshold(threshold)
