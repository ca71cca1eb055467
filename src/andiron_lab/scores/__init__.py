"""Scores beyond `andiron.metrics`: agreement, calibration, edits of sequences, the ROC curve."""

from andiron_lab.scores.agreement import BalancedAccuracy, CohenKappa, MatthewsCorrelation
from andiron_lab.scores.calibration import BrierScore, ExpectedCalibrationError
from andiron_lab.scores.error_rates import CharacterErrorRate, HammingLoss, WordErrorRate
from andiron_lab.scores.roc_curve import RocCurve

__all__ = [
    "BalancedAccuracy", "BrierScore", "CharacterErrorRate", "CohenKappa",
    "ExpectedCalibrationError", "HammingLoss", "MatthewsCorrelation", "RocCurve", "WordErrorRate",
]  # fmt: skip
