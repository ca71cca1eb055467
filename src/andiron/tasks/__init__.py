"""Tasks: modules that put a training and a validation step around a plain network."""

from andiron.tasks.classification import Classifier

__all__ = ["Classifier"]
