"""Destinations of logged values."""

from andiron.protocols import Writer
from andiron.run_folder import RunFolder
from andiron.writers.fanout import Writers
from andiron.writers.shipped.line_writers import CsvWriter, JsonLinesWriter
from andiron.writers.shipped.tensorboard import TensorBoardWriter


def default_writers(folder: RunFolder) -> dict[str, Writer]:
    """The writers of a run from Python that chooses none."""
    lines = JsonLinesWriter(folder.metrics)
    return {"json_lines": lines, "tensorboard": TensorBoardWriter(folder.tensorboard)}


__all__ = [
    "CsvWriter",
    "JsonLinesWriter",
    "TensorBoardWriter",
    "Writers",
]
