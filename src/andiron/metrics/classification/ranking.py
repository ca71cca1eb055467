"""Areas under curves over every threshold: AUROC and average precision.

They keep the logits of every sample. Several classes or labels are each measured against the rest,
classes by their softmax probability. `average`: "micro" takes all of them as one, "macro" is their
mean, "weighted" their mean weighted by how often each is the target, "none" (or None) the value of
every class by name. Classes with an undefined area are left out; if all are, or a logit is
NaN, the value is None. For a binary item it is the area of the positive class.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from andiron.metrics.classification.classifier_rows import BINARY, CLASSES, averaged, kind_of, rows
from andiron.outputs import IGNORED, ClassNames
from andiron.protocols import Parts, Result
from andiron.ranges import Average

Column = tuple[Float[Tensor, " rows"], Bool[Tensor, " rows"]]  # scores and truths of one class


@dataclass(kw_only=True)
class Curve(ABC):
    """The logits and targets of every sample; abstract."""

    class_names: ClassNames = None
    name: str = ""
    higher_is_better = True
    gathers = True

    def __call__(self, item: Any) -> Parts:
        measured = rows(item)
        return measured.logits, measured.targets

    @abstractmethod
    def value(self, logits: Tensor, targets: Tensor) -> Result:
        """The metric's value, from the scores of all samples."""


@dataclass(kw_only=True)
class Area(Curve):
    """An area under a curve, averaged over the classes; abstract: see `area`."""

    average: Average | None = "macro"

    def value(self, logits: Tensor, targets: Tensor) -> Result:
        is_one = self.average == "micro" or kind_of(logits, targets) == BINARY
        columns = columns_of(logits, targets, as_one=is_one)
        if not columns:
            return None
        areas = torch.tensor([self.area(*column) for column in columns], dtype=torch.float64)
        support = torch.stack([truths.sum() for _, truths in columns])
        average = "macro" if is_one else self.average
        return averaged(areas, average, support, self.class_names)

    @abstractmethod
    def area(self, scores: Tensor, truths: Tensor) -> float:
        """The area for one class; NaN where it is undefined."""


@dataclass(kw_only=True)
class AUROC(Area):
    """The area under the ROC curve: P(positive scores higher than negative), ties counting half.

    U / (P N) = (R - P (P + 1) / 2) / (P N), with P positives, N negatives and R the sum of the
    positives' ranks; equal scores share their mean rank. Undefined unless there are both.
    Source: Mann & Whitney 1947; Fawcett 2006, "An introduction to ROC analysis", section 7.
    """

    name: str = "auroc"

    def area(self, scores: Tensor, truths: Tensor) -> float:
        p = int(truths.sum())
        n = len(truths) - p
        if not p or not n:
            return math.nan
        _, place, number = torch.unique(scores, return_inverse=True, return_counts=True)
        number = number.double()
        mean_ranks = number.cumsum(0) - (number - 1) / 2
        return (float(mean_ranks[place[truths]].sum()) - p * (p + 1) / 2) / (p * n)


@dataclass(kw_only=True)
class AveragePrecision(Area):
    """sum_n (R_n - R_(n-1)) P_n, precision P and recall R at every distinct score from the top.

    The area under the steps of the precision-recall curve, without interpolation. Undefined without
    positives.
    Source: Davis & Goadrich 2006 (why not to interpolate); scikit-learn's
    `average_precision_score`.
    """

    name: str = "average_precision"

    def area(self, scores: Tensor, truths: Tensor) -> float:
        if not truths.any():
            return math.nan
        new, predicted, right = counts_by_score(scores, truths)
        return float((new / right[-1] * (right / predicted)).sum())


def columns_of(logits: Tensor, targets: Tensor, *, as_one: bool) -> list[Column]:
    """Scores and truths of each class or label, or of all as one; none if a logit is NaN."""
    counted = targets != IGNORED
    # logits order the answers as probabilities do, with fewer ties
    scores, truths = logits.double(), targets == 1
    if scores[counted].isnan().any():
        return []
    if kind_of(logits, targets) == CLASSES:
        scores, truths = scores.softmax(-1), targets[:, None] == torch.arange(logits.shape[-1])
        counted = counted[:, None].expand_as(scores)
    if as_one or scores.ndim == 1:
        return [(scores[counted], truths[counted])]
    by_class = zip(scores.T, truths.T, counted.T, strict=True)
    return [(of_class[counts], is_true[counts]) for of_class, is_true, counts in by_class]


def counts_by_score(scores: Tensor, truths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """From the highest score down: new positives; predicted and true positives so far."""
    _, place = torch.unique(scores, return_inverse=True)
    new = place.bincount(truths.double())
    predicted, right = torch.stack([place.bincount().double(), new]).flip(1).cumsum(1)
    return new.flip(0), predicted, right
