"""Destinations of logged values."""

from andiron.writers.fanout import Writers
from andiron.writers.json_lines import JsonLinesWriter
from andiron.writers.tensorboard import TensorBoardWriter

__all__ = ["JsonLinesWriter", "TensorBoardWriter", "Writers"]
