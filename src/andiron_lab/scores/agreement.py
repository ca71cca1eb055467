"""The agreement of predictions and targets over all classes, corrected for class frequencies.

For classes, and for binary items, whose negative class is a class of its own; `threshold` is the
probability above which a binary answer is yes. All are computed from how often each class was
right, predicted and true.
"""

import math
from dataclasses import dataclass, field

from torch import Tensor

from andiron.metrics.classification.classifier_rows import BINARY, CLASSES, rows
from andiron.metrics.classification.decision_scores import Counted, unpacked
from andiron.protocols import Parts
from andiron.ranges import Count


@dataclass(kw_only=True)
class Agreement(Counted):
    """A value computed from the counts of all classes, None where it is undefined; abstract."""

    top_k: Count = field(default=1, init=False, repr=False)
    num_classes: int | None = field(default=None, init=False, repr=False)

    def __call__(self, item: object) -> Parts:
        rows(item, self.name, CLASSES, BINARY)  # refuses labels
        return super().__call__(item)


@dataclass(kw_only=True)
class BalancedAccuracy(Agreement):
    """The mean recall over the classes; a class that is never the target has none.

    Source: Brodersen et al. 2010, "The balanced accuracy and its posterior distribution".
    """

    name: str = "balanced_accuracy"

    def value(self, sums: Tensor) -> float | None:
        counts = unpacked(sums).both_sides()
        true = counts.support > 0
        recalls = counts.true_positives[true] / counts.support[true]
        return float(recalls.mean()) if true.any() else None


@dataclass(kw_only=True)
class MatthewsCorrelation(Agreement):
    """(c s - sum p_k t_k) / sqrt((s^2 - sum p_k^2) (s^2 - sum t_k^2)).

    c of s samples are right; class k was predicted p_k and true t_k times. 0 where predictions or
    targets are of one class only, as in scikit-learn.
    Source: Gorodkin 2004, "Comparing two K-category assignments by a K-category correlation
    coefficient", equation 8.
    """

    name: str = "matthews_correlation"

    def value(self, sums: Tensor) -> float | None:
        c, s, p, t = _symbols(sums)
        if not s:
            return None
        product = float(s**2 - p @ p) * float(s**2 - t @ t)
        return float(c * s - p @ t) / math.sqrt(product) if product else 0.0


@dataclass(kw_only=True)
class CohenKappa(Agreement):
    """(p_o - p_e) / (1 - p_e): agreement p_o = c / s, by chance p_e = sum p_k t_k / s^2.

    Undefined where predictions and targets are all of the same class.
    Source: Cohen 1960, "A coefficient of agreement for nominal scales", equation 1.
    """

    name: str = "cohen_kappa"

    def value(self, sums: Tensor) -> float | None:
        c, s, p, t = _symbols(sums)
        expected = float(p @ t)
        return (c * s - expected) / (s**2 - expected) if s**2 > expected else None


def _symbols(sums: Tensor) -> tuple[float, float, Tensor, Tensor]:
    """c right, s in all, p predicted and t true of each class."""
    counts = unpacked(sums).both_sides()
    right, total = float(counts.true_positives.sum()), float(counts.support.sum())
    return right, total, counts.predicted, counts.support
