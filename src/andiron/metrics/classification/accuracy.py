"""The mean loss of any item, and how often a classifier's likeliest classes are right."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from andiron import errors, outputs
from andiron.metrics.classification.classifier_rows import CLASSES, refused, rows
from andiron.outputs import ClassificationOutput
from andiron.protocols import Item
from andiron.ranges import Count


class Loss:
    """The mean loss, each batch weighted by what its loss is a mean over."""

    name = "loss"
    higher_is_better = False

    def __call__(self, item: Item) -> tuple[Tensor, outputs.Weight]:
        weight = item.weight if item.weight is not None else outputs.num_targets(item)
        total = item.loss * weight
        if isinstance(weight, Tensor):  # the mean over a batch of IGNORED targets is NaN
            total = torch.where(weight == 0, 0.0, total)
        return total, weight

    def count_items(self, items: Sequence[Item]) -> tuple[Tensor, int]:
        """As `__call__` for several items whose weights are integers, in one operation."""
        weights = [item.weight for item in items]
        return torch.stack([item.loss for item in items]) * torch.tensor(weights), sum(weights)


class Accuracy:
    """The fraction of targets that have the largest logit; IGNORED targets do not count.

    Raises: MismatchError for an item without a logit for each class; see HammingAccuracy.
    """

    name = "accuracy"
    higher_is_better = True

    def __call__(self, item: Any) -> tuple[Tensor, Tensor | int]:
        if item.output.dim() != item.targets.dim() + 1:
            shapes = f"output {list(item.output.shape)}, targets {list(item.targets.shape)}"
            remedy = "use HammingAccuracy for yes-or-no answers"
            raise errors.MismatchError(f"accuracy: no logit for each class ({shapes}); {remedy}")
        return item.output.argmax(dim=-1) == item.targets, outputs.num_targets(item)

    def count_items(self, items: Sequence[ClassificationOutput]) -> tuple[Tensor, int]:
        """As `__call__` for several items without IGNORED targets, in one operation."""
        logits = torch.cat([item.output for item in items])
        targets = torch.cat([item.targets for item in items])
        return logits.argmax(dim=-1) == targets, len(targets)


@dataclass(kw_only=True)
class TopKAccuracy:
    """The fraction of targets among the k largest logits; of equal logits the first wins.

    The name is top_5_accuracy by default. IGNORED targets do not count.
    Raises: ValueError if k is above the number of classes, where that is known.
    """

    k: Count = 5
    num_classes: int | None = None
    name: str = ""
    higher_is_better = True

    def __post_init__(self) -> None:
        if self.num_classes is not None and self.k > self.num_classes:
            allowed = f"should be at most {self.num_classes}, the number of classes"
            raise ValueError(f"k={self.k}: {allowed}")
        self.name = self.name or f"top_{self.k}_accuracy"

    def __call__(self, item: Any) -> tuple[Tensor, Tensor | int]:
        measured = rows(item)
        if measured.kind != CLASSES:
            raise refused(self.name, measured.kind, CLASSES)
        logits, targets = measured.logits, measured.indices()[:, None]
        own = logits.gather(-1, targets)
        is_earlier = torch.arange(logits.shape[-1], device=logits.device) < targets
        # negated comparisons, so that NaN counts as ahead
        is_ahead = torch.where(is_earlier, ~(logits < own), ~(logits <= own))
        return measured.only(is_ahead.sum(-1) < self.k), measured.count()
