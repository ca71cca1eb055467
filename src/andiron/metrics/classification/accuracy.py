"""Metrics of any output that has a loss, and of a classifier's."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from andiron import errors, outputs
from andiron.metrics.classification.classifier_rows import CLASSES, refused, rows
from andiron.ranges import Count


class Loss:
    """The mean loss, each batch weighted by what its loss is a mean over, so that a short last batch cannot skew it."""

    name = "loss"
    higher_is_better = False

    def __call__(self, item: Any) -> tuple[Tensor, outputs.Weight]:
        weight = outputs.loss_weight(item)
        total = item.loss * weight
        if isinstance(
            weight, Tensor
        ):  # of a batch whose targets are all IGNORED the mean is no number
            total = torch.where(weight == 0, 0.0, total)
        return total, weight


class Accuracy:
    """The fraction of targets that the largest logit names; those that are IGNORED count nowhere.

    Raises: ValueError for an item that has no logit for each class, whose labels HammingAccuracy counts.
    """

    name = "accuracy"
    higher_is_better = True

    def __call__(self, item: Any) -> tuple[Tensor, Tensor | int]:
        if item.output.dim() != item.targets.dim() + 1:
            shapes = f"output {list(item.output.shape)}, targets {list(item.targets.shape)}"
            remedy = "of yes or no, HammingAccuracy is the measure"
            raise errors.MismatchError(f"accuracy: no logit for each class ({shapes}); {remedy}")
        return item.output.argmax(dim=-1) == item.targets, outputs.num_targets(item)


@dataclass(kw_only=True)
class TopKAccuracy:
    """The fraction of targets that are among the k largest logits; of equal logits the first come first, as for `Accuracy`.

    Without a name of its own it is top_5_accuracy. Targets that are IGNORED count nowhere.
    Raises: ValueError if k is below 1 or above the number of classes, where that is known.
    """

    k: Count = 5
    num_classes: int | None = None
    name: str = ""
    higher_is_better = True

    def __post_init__(self) -> None:
        if self.k < 1 or (self.num_classes is not None and self.k > self.num_classes):
            most = (
                "up"
                if self.num_classes is None
                else f"to {self.num_classes}, the number of classes"
            )
            raise ValueError(f"k={self.k}: should be a number from 1 {most}")
        self.name = self.name or f"top_{self.k}_accuracy"

    def __call__(self, item: Any) -> tuple[Tensor, Tensor | int]:
        measured = rows(item)
        if measured.kind != CLASSES:
            raise refused(self.name, measured.kind, CLASSES)
        logits, targets = measured.logits, measured.indices()[:, None]
        own = logits.gather(-1, targets)
        is_earlier = torch.arange(logits.shape[-1], device=logits.device) < targets
        is_ahead = torch.where(
            is_earlier, ~(logits < own), ~(logits <= own)
        )  # the negations count what is no number
        return measured.only(is_ahead.sum(-1) < self.k), measured.count()
