"""Tasks: modules that add training and validation steps to a network."""

from andiron.tasks.classifier import (
    BinaryClassifier,
    BinaryCrossEntropy,
    Classifier,
    CrossEntropy,
    MultiLabelClassifier,
)
from andiron.tasks.forward import Forward
from andiron.tasks.language import LanguageModel
from andiron.tasks.regressor import MeanSquaredError, Regressor

__all__ = [
    "BinaryClassifier", "BinaryCrossEntropy", "Classifier", "CrossEntropy",
    "Forward", "LanguageModel", "MeanSquaredError", "MultiLabelClassifier", "Regressor",
]  # fmt: skip
