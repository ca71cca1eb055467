"""The precision-recall curve of each class, for TensorBoard's PR Curves tab."""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from andiron.metrics.classification.classifier_rows import CLASSES, kind_of
from andiron.metrics.classification.ranking import Column, Curve, columns_of
from andiron.outputs import ClassNames, named
from andiron.protocols import Decisions, Result


@dataclass(kw_only=True)
class PrecisionRecallCurve(Curve):
    """The decisions of each class against the rest at evenly spaced thresholds of its probability.

    TensorBoard draws them as precision over recall; classes without positives or negatives have no
    curve. Measured on validation data only.
    Source: Davis & Goadrich 2006, "The relationship between precision-recall and ROC curves".
    """

    thresholds: Annotated[int, Field(ge=2, le=1000)] = 101
    name: str = "pr_curve"
    validation_only = True

    def value(self, logits: Tensor, targets: Tensor) -> Result:
        is_logit = kind_of(logits, targets) != CLASSES
        by_class = columns_by_class(logits, targets, self.class_names)
        return {
            name: _decisions(scores.sigmoid() if is_logit else scores, truths, self.thresholds)
            for name, (scores, truths) in by_class.items()
        }


def _decisions(scores: Tensor, truths: Tensor, thresholds: int) -> Decisions:
    edges = torch.linspace(0, 1, thresholds, dtype=torch.float64)
    place = torch.bucketize(scores, edges, right=True)  # the number of thresholds that it reaches
    sides = [place[side].bincount(minlength=thresholds + 1) for side in (truths, ~truths)]
    reached = torch.stack(sides).double()
    tp, fp = reached.flip(1).cumsum(1).flip(1)[:, 1:]
    positives, negatives = reached.sum(1)
    return Decisions(torch.stack([tp, fp, negatives - fp, positives - tp]))


def columns_by_class(
    logits: Tensor, targets: Tensor, class_names: ClassNames
) -> dict[str, Column]:
    """The columns of the classes that have positives and negatives, by name."""
    columns = columns_of(logits, targets, as_one=False)
    names = named(class_names, len(columns)) if len(columns) > 1 else ["1"]
    return {
        name: (scores, truths)
        for name, (scores, truths) in zip(names, columns, strict=False)
        if truths.any() and not truths.all()
    }
