"""Metrics: sums over the items of steps, and the tally that adds them up."""

from andiron.metrics.adapted.function_mean import Mean
from andiron.metrics.classification.accuracy import (
    Accuracy,
    ExactMatch,
    HammingAccuracy,
    Loss,
    TopKAccuracy,
)
from andiron.metrics.classification.class_tables import ConfusionMatrix, PerClass
from andiron.metrics.classification.decision_scores import FBeta, Precision, Recall, Specificity
from andiron.metrics.classification.ranking import AUROC, AveragePrecision
from andiron.metrics.history import History
from andiron.metrics.regression.regression_errors import (
    ExplainedVariance,
    MeanAbsoluteError,
    MeanSquaredError,
    R2,
    RootMeanSquaredError,
)
from andiron.metrics.sequence.token_metrics import BitsPerByte, Perplexity
from andiron.metrics.tally import Tally

__all__ = [
    "AUROC", "R2", "Accuracy", "AveragePrecision", "BitsPerByte", "ConfusionMatrix",
    "ExactMatch", "ExplainedVariance", "FBeta", "HammingAccuracy", "History", "Loss", "Mean",
    "MeanAbsoluteError", "MeanSquaredError", "PerClass", "Perplexity", "Precision",
    "Recall", "RootMeanSquaredError", "Specificity", "Tally", "TopKAccuracy",
]  # fmt: skip
