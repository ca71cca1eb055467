"""How far predictions and targets agree, in one number over all classes that luck and common classes cannot raise.

Of classes or of a binary item, whose negative class then is a class like the other; `threshold` is the probability above which
a binary answer is yes. All are computed from how often each class was right, predicted and true.
"""

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from andiron.metrics.classification import confusion_counts
from andiron.metrics.classification.confusion_counts import Counts
from andiron.metrics.classification.classifier_rows import LABELS, check_threshold, kind_of, refused
from andiron.ranges import Proportion


@dataclass(kw_only=True)
class BalancedAccuracy:
    """The mean over the classes of their recall; a class that is never the target has none.

    Source: Brodersen et al. 2010, "The balanced accuracy and its posterior distribution".
    """

    threshold: Proportion = 0.5
    name: str = "balanced_accuracy"
    higher_is_better = True
    gathers = False

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def __call__(self, item: Any) -> tuple[Tensor]:
        return _counted(self.name, item, self.threshold)

    def value(self, *parts: Tensor) -> float | None:
        of = confusion_counts.unpacked(parts[0]).both_sides()
        true = of.support > 0
        return float((of.true_positives[true] / of.support[true]).mean()) if true.any() else None


@dataclass(kw_only=True)
class MatthewsCorrelation:
    """(c s - sum p_k t_k) / sqrt((s^2 - sum p_k^2) (s^2 - sum t_k^2)): c right of s, class k predicted p_k and true t_k times.

    0 where either side names one class only, as in scikit-learn.
    Source: Gorodkin 2004, "Comparing two K-category assignments by a K-category correlation coefficient", equation 8.
    """

    threshold: Proportion = 0.5
    name: str = "matthews_correlation"
    higher_is_better = True
    gathers = False

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def __call__(self, item: Any) -> tuple[Tensor]:
        return _counted(self.name, item, self.threshold)

    def value(self, *parts: Tensor) -> float | None:
        c, s, p, t = _symbols(confusion_counts.unpacked(parts[0]).both_sides())
        if not s:
            return None
        product = float(s**2 - p @ p) * float(s**2 - t @ t)
        return float(c * s - p @ t) / math.sqrt(product) if product else 0.0


@dataclass(kw_only=True)
class CohenKappa:
    """(p_o - p_e) / (1 - p_e): the agreement observed, c / s, beyond that expected by chance, sum p_k t_k / s^2.

    Undefined where both sides name one and the same class only.
    Source: Cohen 1960, "A coefficient of agreement for nominal scales", equation 1.
    """

    threshold: Proportion = 0.5
    name: str = "cohen_kappa"
    higher_is_better = True
    gathers = False

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def __call__(self, item: Any) -> tuple[Tensor]:
        return _counted(self.name, item, self.threshold)

    def value(self, *parts: Tensor) -> float | None:
        c, s, p, t = _symbols(confusion_counts.unpacked(parts[0]).both_sides())
        expected = float(p @ t)
        return (c * s - expected) / (s**2 - expected) if s**2 > expected else None


def _counted(name: str, item: Any, threshold: float) -> tuple[Tensor]:
    kind = kind_of(item.output, item.targets)
    if kind == LABELS:
        raise refused(name, kind, "one of several classes, or yes or no")
    return (confusion_counts.counted(item, threshold),)


def _symbols(of: Counts) -> tuple[float, float, Tensor, Tensor]:
    """c right, s in all, p predicted and t true of each class."""
    return float(of.true_positives.sum()), float(of.support.sum()), of.predicted, of.support
