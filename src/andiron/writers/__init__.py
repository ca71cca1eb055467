"""Where logged values go."""

from andiron.writers.json_lines import JsonLinesWriter
from andiron.writers.tensorboard import TensorBoardWriter

__all__ = ["JsonLinesWriter", "TensorBoardWriter"]
