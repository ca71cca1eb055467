"""Metrics: functions from a step's item to what can be added up, and what adds it up."""

from andiron.metrics.agreement import BalancedAccuracy, CohenKappa, MatthewsCorrelation
from andiron.metrics.calibration import BrierScore, ExpectedCalibrationError
from andiron.metrics.classification import Accuracy, Loss, TopKAccuracy
from andiron.metrics.curves import AUROC, AveragePrecision
from andiron.metrics.function import Mean
from andiron.metrics.history import History
from andiron.metrics.labels import ExactMatch, HammingAccuracy, HammingLoss
from andiron.metrics.regression import R2, ExplainedVariance, MeanAbsoluteError, MeanSquaredError, RootMeanSquaredError
from andiron.metrics.scores import FBeta, Precision, Recall, Specificity
from andiron.metrics.sequence import BitsPerByte, CharacterErrorRate, Perplexity, WordErrorRate
from andiron.metrics.tables import ConfusionMatrix, PerClass
from andiron.metrics.tally import Tally
from andiron.metrics.torchmetrics_adapter import Torchmetrics

__all__ = [
    "AUROC", "R2", "Accuracy", "AveragePrecision", "BalancedAccuracy", "BitsPerByte", "BrierScore",
    "CharacterErrorRate", "CohenKappa", "ConfusionMatrix", "ExactMatch", "ExpectedCalibrationError",
    "ExplainedVariance", "FBeta", "HammingAccuracy", "HammingLoss", "History", "Loss", "MatthewsCorrelation", "Mean",
    "MeanAbsoluteError", "MeanSquaredError", "PerClass", "Perplexity", "Precision", "Recall", "RootMeanSquaredError",
    "Specificity", "Tally", "TopKAccuracy", "Torchmetrics", "WordErrorRate",
]  # fmt: skip
