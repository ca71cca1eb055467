"""Checkpoints and the strategies that decide which of them stay."""

from andiron.checkpoint.checkpointer import Checkpoint, FileCheckpointer, load, write
from andiron.checkpoint.strategies import Composed, KeepBest, KeepLast, Saved, last_and_best

__all__ = ["Checkpoint", "Composed", "FileCheckpointer", "KeepBest", "KeepLast", "Saved", "last_and_best", "load", "write"]
