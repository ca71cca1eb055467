"""Fractions of right yes-or-no answers: label by label, and all labels of a sample at once.

`threshold` is the probability above which an answer is yes.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from andiron.metrics.classification.classifier_rows import LABELS, refused, rows
from andiron.ranges import Proportion


@dataclass(kw_only=True)
class HammingAccuracy:
    """The fraction of right answers over all labels of all samples, binary items included."""

    threshold: Proportion = 0.5
    name: str = "hamming_accuracy"
    higher_is_better = True

    def __call__(self, item: Any) -> tuple[Tensor, Tensor | int]:
        measured = rows(item)
        return measured.decided(self.threshold) == measured.targets, measured.count()


@dataclass(kw_only=True)
class HammingLoss:
    """The fraction of wrong answers: 1 - `HammingAccuracy`."""

    threshold: Proportion = 0.5
    name: str = "hamming_loss"
    higher_is_better = False

    def __call__(self, item: Any) -> tuple[Tensor, Tensor | int]:
        measured = rows(item)
        return measured.only(measured.decided(self.threshold) != measured.targets), measured.count()


@dataclass(kw_only=True)
class ExactMatch:
    """The fraction of samples whose labels are all right, also called subset accuracy.

    IGNORED labels cannot be wrong; a sample whose labels are all IGNORED does not count.
    """

    threshold: Proportion = 0.5
    name: str = "exact_match"
    higher_is_better = True

    def __call__(self, item: Any) -> tuple[Tensor, Tensor | int]:
        measured = rows(item)
        if measured.kind != LABELS:
            raise refused(self.name, measured.kind, LABELS)
        wrong = measured.only(measured.decided(self.threshold) != measured.targets).any(-1)
        if measured.counted is None:
            return ~wrong, len(wrong)
        sample_counts = measured.counted.any(-1)
        return ~wrong & sample_counts, sample_counts.sum()
