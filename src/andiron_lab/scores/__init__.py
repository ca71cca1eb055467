"""Scores beyond `andiron.metrics`: agreement, calibration, edits, curves, errors, torchmetrics."""

from andiron_lab.scores.adapted.torchmetrics_adapter import Torchmetrics
from andiron_lab.scores.agreement import BalancedAccuracy, CohenKappa, MatthewsCorrelation
from andiron_lab.scores.calibration import BrierScore, ExpectedCalibrationError
from andiron_lab.scores.error_rates import CharacterErrorRate, HammingLoss, WordErrorRate
from andiron_lab.scores.precision_recall_curve import PrecisionRecallCurve
from andiron_lab.scores.roc_curve import RocCurve
from andiron_lab.scores.worst_errors import WorstErrors

__all__ = [
    "BalancedAccuracy", "BrierScore", "CharacterErrorRate", "CohenKappa",
    "ExpectedCalibrationError", "HammingLoss", "MatthewsCorrelation", "PrecisionRecallCurve",
    "RocCurve", "Torchmetrics", "WordErrorRate", "WorstErrors",
]  # fmt: skip
