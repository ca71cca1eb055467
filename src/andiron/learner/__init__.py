"""The learner: the loop, what it records, and how it is built."""

from andiron.learner.builder import LearnerBuilder
from andiron.learner.early_stopping import EarlyStopping, Stop
from andiron.learner.learner import Learner
from andiron.learner.observers import AfterUpdate, AfterValidation, Step
from andiron.learner.summary import summarise

__all__ = [
    "AfterUpdate", "AfterValidation", "EarlyStopping", "Learner", "LearnerBuilder", "Step", "Stop",
    "summarise",
]  # fmt: skip
