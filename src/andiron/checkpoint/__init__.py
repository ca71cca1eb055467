"""Checkpoints: their contents, their stores, and the strategies that choose which to keep."""

from andiron.checkpoint.on_disk.checkpoint_files import load, write
from andiron.checkpoint.checkpointer import FileCheckpointer
from andiron.checkpoint.contents import Checkpoint
from andiron.checkpoint.directory import names, newest_whole
from andiron.checkpoint.policy import Checkpointing, checkpointing
from andiron.checkpoint.store import Checkpointer, LocalStore, Store
from andiron.checkpoint.strategies import (
    AnyOf,
    KeepBest,
    KeepEvery,
    KeepLast,
    Saved,
    last_and_best,
)
from andiron.plain.cadence import Cadence

__all__ = [
    "AnyOf", "Cadence", "Checkpoint", "Checkpointer", "Checkpointing", "FileCheckpointer",
    "KeepBest", "KeepEvery", "KeepLast", "LocalStore", "Saved", "Store", "checkpointing",
    "last_and_best", "load", "names", "newest_whole", "write",
]  # fmt: skip
