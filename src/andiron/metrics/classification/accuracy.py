"""The mean loss of any item, and the fraction of a classifier's answers that are right.

`threshold` is the probability above which the answer for a label, or a yes-or-no answer, is yes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from andiron import errors, outputs
from andiron.metrics.classification.classifier_rows import CLASSES, LABELS, rows
from andiron.outputs import ClassificationOutput
from andiron.protocols import Item, Parts
from andiron.ranges import Count, Proportion


class Loss:
    """The mean loss, each batch weighted by the count its loss is a mean over."""

    name = "loss"
    higher_is_better = False

    def __call__(self, item: Item) -> Parts:
        weight = outputs.loss_weight(item)
        loss = outputs.at_least_float32(item.loss)
        is_empty = weight == 0  # the mean over no targets may be NaN
        if isinstance(is_empty, Tensor):
            return torch.where(is_empty, 0.0, loss * weight), weight
        return loss.new_zeros(()) if is_empty else loss * weight, weight

    def count_items(self, items: Sequence[Item]) -> Parts:
        """The parts of several items whose weights are integers, in one operation."""
        weights = [item.weight for item in items]
        losses = outputs.at_least_float32(torch.stack([item.loss for item in items]))
        return losses * torch.tensor(weights), sum(weights)


class Accuracy:
    """The fraction of targets that have the largest logit; IGNORED targets do not count.

    NaN is a wrong answer, here and in every metric of decisions.

    Raises: MismatchError for an item without a logit for each class; see HammingAccuracy.
    """

    name = "accuracy"
    higher_is_better = True

    def __call__(self, item: Any) -> Parts:
        if item.output.dim() != item.targets.dim() + 1:
            raise errors.MismatchError(
                f"accuracy: no logit for each class (output {list(item.output.shape)}, targets "
                f"{list(item.targets.shape)}); use HammingAccuracy for yes-or-no answers"
            )
        return outputs.likeliest(item.output) == item.targets, outputs.num_targets(item)

    def count_items(self, items: Sequence[ClassificationOutput]) -> Parts:
        """The parts of `__call__` for several items without IGNORED targets, in one operation."""
        logits = torch.cat([item.output for item in items])
        targets = torch.cat([item.targets for item in items])
        return outputs.likeliest(logits) == targets, len(targets)


@dataclass(kw_only=True)
class TopKAccuracy:
    """The fraction of targets among the k largest logits; of equal logits the first wins.

    The name is top_5_accuracy by default. IGNORED targets do not count.
    Raises: ValueError if k is above a known number of classes.
    """

    k: Count = 5
    num_classes: int | None = None
    name: str = ""
    higher_is_better = True

    def __post_init__(self) -> None:
        if self.num_classes is not None and self.k > self.num_classes:
            raise ValueError(
                f"k={self.k}: should be at most {self.num_classes}, the number of classes"
            )
        self.name = self.name or f"top_{self.k}_accuracy"

    def __call__(self, item: object) -> Parts:
        measured = rows(item, self.name, CLASSES)
        logits, targets = measured.logits, measured.indices()[:, None]
        own = logits.gather(-1, targets)
        is_earlier = torch.arange(logits.shape[-1], device=logits.device) < targets
        # negated comparisons, so that NaN counts as ahead
        is_ahead = torch.where(is_earlier, ~(logits < own), ~(logits <= own))
        return measured.only(is_ahead.sum(-1) < self.k), measured.count()


@dataclass(kw_only=True)
class HammingAccuracy:
    """The fraction of right answers over all labels of all samples, binary items included."""

    threshold: Proportion = 0.5
    name: str = "hamming_accuracy"
    higher_is_better = True

    def __call__(self, item: object) -> Parts:
        measured = rows(item)
        return measured.decided(self.threshold) == measured.targets, measured.count()


@dataclass(kw_only=True)
class ExactMatch:
    """The fraction of samples whose labels are all right, also called subset accuracy.

    IGNORED labels cannot be wrong; a sample whose labels are all IGNORED does not count.
    """

    threshold: Proportion = 0.5
    name: str = "exact_match"
    higher_is_better = True

    def __call__(self, item: object) -> Parts:
        measured = rows(item, self.name, LABELS)
        wrong = measured.only(measured.decided(self.threshold) != measured.targets).any(-1)
        if measured.counted is None:
            return ~wrong, len(wrong)
        sample_counts = measured.counted.any(-1)
        return ~wrong & sample_counts, sample_counts.sum()
