"""Fractions of answers that are right where there is yes or no to each: label by label, and all of a sample's at once."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from andiron.metrics.classification.classifier_rows import LABELS, check_threshold, refused, rows
from andiron.ranges import Proportion


@dataclass(kw_only=True)
class HammingAccuracy:
    """The fraction of answers that are right, over all labels of all samples; of a binary item its accuracy.

    `threshold` is the probability above which an answer is yes.
    """

    threshold: Proportion = 0.5
    name: str = "hamming_accuracy"
    higher_is_better = True

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def __call__(self, item: Any) -> tuple[Tensor, Tensor | int]:
        measured = rows(item)
        return measured.decided(self.threshold) == measured.targets, measured.count()


@dataclass(kw_only=True)
class HammingLoss:
    """The fraction of answers that are wrong: 1 - `HammingAccuracy`."""

    threshold: Proportion = 0.5
    name: str = "hamming_loss"
    higher_is_better = False

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def __call__(self, item: Any) -> tuple[Tensor, Tensor | int]:
        measured = rows(item)
        return measured.only(measured.decided(self.threshold) != measured.targets), measured.count()


@dataclass(kw_only=True)
class ExactMatch:
    """The fraction of samples whose every label is right, also called subset accuracy.

    A label that does not count cannot be wrong; a sample of which none counts is left out.
    """

    threshold: Proportion = 0.5
    name: str = "exact_match"
    higher_is_better = True

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def __call__(self, item: Any) -> tuple[Tensor, Tensor | int]:
        measured = rows(item)
        if measured.kind != LABELS:
            raise refused(self.name, measured.kind, LABELS)
        wrong = measured.only(measured.decided(self.threshold) != measured.targets).any(-1)
        if measured.counted is None:
            return ~wrong, len(wrong)
        sample_counts = measured.counted.any(-1)
        return ~wrong & sample_counts, sample_counts.sum()
