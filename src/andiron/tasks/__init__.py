"""Tasks: modules that put a training and a validation step around a plain network."""

from andiron.tasks.adversarial import Adversarial
from andiron.tasks.classifier import BinaryClassifier, Classifier
from andiron.tasks.language import LanguageModel
from andiron.tasks.losses import BinaryCrossEntropy, CrossEntropy, MeanSquaredError
from andiron.tasks.multi_label import MultiLabelClassifier
from andiron.tasks.regressor import Regressor

__all__ = [
    "Adversarial", "BinaryClassifier", "BinaryCrossEntropy", "Classifier", "CrossEntropy", "LanguageModel",
    "MeanSquaredError", "MultiLabelClassifier", "Regressor",
]  # fmt: skip
