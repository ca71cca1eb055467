"""Destinations of logged values."""

from andiron.writers.csv_rows import CsvWriter
from andiron.writers.fanout import Writers
from andiron.writers.json_lines import JsonLinesWriter
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
