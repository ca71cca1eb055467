"""Destinations of logged values."""

from andiron.writers.fanout import Writers
from andiron.writers.line_writers import CsvWriter, JsonLinesWriter
from andiron.writers.mlflow import MlflowWriter
from andiron.writers.tensorboard import TensorBoardWriter
from andiron.writers.wandb import WandbWriter

__all__ = [
    "CsvWriter",
    "JsonLinesWriter",
    "MlflowWriter",
    "TensorBoardWriter",
    "WandbWriter",
    "Writers",
]
