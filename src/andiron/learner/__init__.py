"""The learner: the loop, what it records, and how it is built."""

from andiron.learner.builder import LearnerBuilder
from andiron.learner.early_stopping import EarlyStopping, Stop
from andiron.learner.learner import Learner
from andiron.learner.observers import Step
from andiron.learner.summary import summarise

__all__ = ["EarlyStopping", "Learner", "LearnerBuilder", "Step", "Stop", "summarise"]
