"""Metrics of classifiers; the names of the classes and how many there are come from the data."""

from typing import Annotated, Literal

from pydantic import Field

from andiron.config.nodes.kinds import Count, Positive, describes

Average = Literal["micro", "macro", "weighted", "none"]
Threshold = Annotated[float, Field(gt=0, lt=1)]


@describes("andiron.metrics.TopKAccuracy")
class TopKAccuracy:
    k: Count


@describes("andiron.metrics.Precision")
class Precision:
    average: Average
    threshold: Threshold


@describes("andiron.metrics.Recall")
class Recall:
    average: Average
    threshold: Threshold


@describes("andiron.metrics.FBeta")
class FBeta:
    beta: Positive
    average: Average
    threshold: Threshold


@describes("andiron.metrics.Specificity")
class Specificity:
    average: Average
    threshold: Threshold


@describes("andiron.metrics.BalancedAccuracy")
class BalancedAccuracy:
    threshold: Threshold


@describes("andiron.metrics.MatthewsCorrelation")
class MatthewsCorrelation:
    threshold: Threshold


@describes("andiron.metrics.CohenKappa")
class CohenKappa:
    threshold: Threshold


@describes("andiron.metrics.ConfusionMatrix")
class ConfusionMatrix:
    threshold: Threshold


@describes("andiron.metrics.PerClass")
class PerClass:
    threshold: Threshold


@describes("andiron.metrics.AUROC")
class AUROC:
    average: Average


@describes("andiron.metrics.AveragePrecision")
class AveragePrecision:
    average: Average


@describes("andiron.metrics.ExpectedCalibrationError")
class ExpectedCalibrationError:
    bins: Count


@describes("andiron.metrics.BrierScore")
class BrierScore:
    pass


@describes("andiron.metrics.HammingAccuracy")
class HammingAccuracy:
    threshold: Threshold


@describes("andiron.metrics.HammingLoss")
class HammingLoss:
    threshold: Threshold


@describes("andiron.metrics.ExactMatch")
class ExactMatch:
    threshold: Threshold
