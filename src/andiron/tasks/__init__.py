"""Tasks: modules that put a training and a validation step around a network."""

from andiron.tasks.adversarial import Adversarial
from andiron.tasks.classifier import Classifier, CrossEntropy
from andiron.tasks.language import LanguageModel
from andiron.tasks.regressor import MeanSquaredError, Regressor
from andiron.tasks.yes_or_no import BinaryClassifier, BinaryCrossEntropy, MultiLabelClassifier

__all__ = [
    "Adversarial", "BinaryClassifier", "BinaryCrossEntropy", "Classifier", "CrossEntropy",
    "LanguageModel", "MeanSquaredError", "MultiLabelClassifier", "Regressor",
]  # fmt: skip
