"""Areas under curves over every threshold: AUROC and average precision. They keep the logits of every sample.

Several classes or labels are measured each against the rest, classes by their softmax probability. `average`: "micro" takes
all of them as one, "macro" is their mean, "weighted" their mean by how often each is the target, "none" (or None) every
class's own, by name. A class for which the area is undefined is left out; where that leaves none, there is no value, nor
where a logit is no number. A binary item has the area of its positive class, whatever the average.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from andiron.metrics.classification import class_averages
from andiron.metrics.classification.classifier_rows import BINARY, CLASSES, kind_of, rows
from andiron.outputs import IGNORED
from andiron.protocols import Values
from andiron.ranges import Average

Area = Callable[[Tensor, Tensor], float | None]  # of scores and truths


@dataclass(kw_only=True)
class AUROC:
    """The area under the ROC curve: how likely a positive has a higher score than a negative, ties counting half.

    U / (P N) = (R - P (P + 1) / 2) / (P N), R the sum of the positives' ranks, equal scores sharing their mean rank;
    P positives, N negatives. Undefined unless there are both.
    Source: Mann & Whitney 1947; Fawcett 2006, "An introduction to ROC analysis", section 7.
    """

    average: Average | None = "macro"
    class_names: Sequence[str] | None = None
    name: str = "auroc"
    higher_is_better = True
    gathers = True

    def __post_init__(self) -> None:
        class_averages.check_average(self.average)

    def __call__(self, item: Any) -> tuple[Tensor, Tensor]:
        return _kept(item)

    def value(self, *parts: Tensor) -> float | Values | None:
        return _measured(_auroc, *parts, average=self.average, class_names=self.class_names)


@dataclass(kw_only=True)
class AveragePrecision:
    """sum_n (R_n - R_(n-1)) P_n, precision P and recall R at every distinct score from the highest down.

    The area under the steps of the precision-recall curve, not under lines between its points. Undefined without positives.
    Source: Davis & Goadrich 2006 (why no lines); scikit-learn's `average_precision_score`.
    """

    average: Average | None = "macro"
    class_names: Sequence[str] | None = None
    name: str = "average_precision"
    higher_is_better = True
    gathers = True

    def __post_init__(self) -> None:
        class_averages.check_average(self.average)

    def __call__(self, item: Any) -> tuple[Tensor, Tensor]:
        return _kept(item)

    def value(self, *parts: Tensor) -> float | Values | None:
        return _measured(
            _average_precision, *parts, average=self.average, class_names=self.class_names
        )


def _kept(item: Any) -> tuple[Tensor, Tensor]:
    measured = rows(item)
    return measured.logits, measured.targets


def _measured(
    area: Area,
    logits: Tensor,
    targets: Tensor,
    *,
    average: str | None,
    class_names: Sequence[str] | None,
) -> float | Values | None:
    kind, logits = kind_of(logits, targets), logits.double()
    counted = targets != IGNORED
    if logits[counted].isnan().any():
        return None
    if kind == BINARY or (average == "micro" and kind != CLASSES):
        return area(
            logits[counted], targets[counted] == 1
        )  # the order of logits is that of probabilities, with fewer ties
    if kind == CLASSES:
        logits, targets = logits[counted].softmax(-1), targets[counted]
        truths = targets[:, None] == torch.arange(logits.shape[-1])
        if average == "micro":
            return area(logits.flatten(), truths.flatten())
        columns = list(zip(logits.T, truths.T, strict=True))
    else:
        per_label = zip(logits.T, targets.T, counted.T, strict=True)
        columns = [(scores[kept], labels[kept] == 1) for scores, labels, kept in per_label]
    areas = [area(*column) for column in columns]
    support = torch.stack([truths.sum() for _, truths in columns])
    defined = torch.tensor([value is not None for value in areas])
    values = torch.tensor([value or 0.0 for value in areas], dtype=torch.float64)
    return class_averages.averaged(
        values, average, support=support, defined=defined, class_names=class_names
    )


def _auroc(scores: Float[Tensor, " rows"], truths: Bool[Tensor, " rows"]) -> float | None:
    p = int(truths.sum())
    n = len(truths) - p
    if not p or not n:
        return None
    _, place, number = torch.unique(scores, return_inverse=True, return_counts=True)
    number = number.double()
    mean_ranks = number.cumsum(0) - (number - 1) / 2
    return (float(mean_ranks[place[truths]].sum()) - p * (p + 1) / 2) / (p * n)


def _average_precision(
    scores: Float[Tensor, " rows"], truths: Bool[Tensor, " rows"]
) -> float | None:
    if not truths.any():
        return None
    distinct, place = torch.unique(scores, return_inverse=True)
    new = torch.zeros(
        2, len(distinct), dtype=torch.float64
    )  # how many, and how many true, at each score
    new[0].index_add_(0, place, torch.ones_like(scores))
    new[1].index_add_(0, place, truths.double())
    predicted, right = new.flip(1).cumsum(1)
    return float((new[1].flip(0) / right[-1] * (right / predicted)).sum())
