"""Metrics: functions from a step's item to (total, count), and what adds them up."""

from andiron.metrics.classification import Accuracy, Loss
from andiron.metrics.history import History
from andiron.metrics.tally import Tally

__all__ = ["Accuracy", "History", "Loss", "Tally"]
