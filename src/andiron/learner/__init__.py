"""The learner: the loop, what it records, and how it is built."""

from andiron.learner.builder import LearnerBuilder
from andiron.learner.extras.early_stopping import EarlyStopping
from andiron.learner.extras.observers import AfterUpdate, AfterValidation, Step
from andiron.learner.learner import Learner

__all__ = [
    "AfterUpdate", "AfterValidation", "EarlyStopping", "Learner", "LearnerBuilder", "Step",
]  # fmt: skip
