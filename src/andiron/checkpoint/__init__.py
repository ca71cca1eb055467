"""Checkpoints: what they hold, when they are made, and the strategies that decide which of them stay."""

from andiron.checkpoint.checkpointer import FileCheckpointer
from andiron.checkpoint.contents import Checkpoint
from andiron.checkpoint.checkpoint_files import load, write
from andiron.cadence import Cadence
from andiron.checkpoint.policy import Checkpointing, checkpointing
from andiron.checkpoint.directory import names, newest_whole
from andiron.checkpoint.strategies import (
    Composed,
    KeepBest,
    KeepEvery,
    KeepLast,
    Saved,
    last_and_best,
)

__all__ = [
    "Cadence", "Checkpoint", "Checkpointing", "Composed", "FileCheckpointer", "KeepBest", "KeepEvery", "KeepLast", "Saved",
    "checkpointing", "last_and_best", "load", "names", "newest_whole", "write",
]  # fmt: skip
