"""Saves and loads tensors and plain values: any module, in several formats and precisions.

    >>> import torch
    >>> from andiron import serialization
    >>> folder = getfixture("tmp_path")
    >>> layer = torch.nn.Linear(3, 2)
    >>> serialization.save_file(layer, folder / "layer.safetensors")
    >>> sorted(serialization.load(folder / "layer.safetensors").tensors)
    ['bias', 'weight']
    >>> other = torch.nn.Linear(3, 2)
    >>> bool(serialization.load_file(other, folder / "layer.safetensors"))  # differences
    False
    >>> torch.equal(other.weight, layer.weight)
    True
"""

from typing import Any

from andiron import errors
from andiron.plain import wings
from andiron.serialization.matching import Differences
from andiron.serialization.module_file import load_file, load_record, most_numbers, save_file
from andiron.serialization.record import Record, load, save
from andiron.serialization.safetensors_codec import chunks, load_tensors, save_tensors
from andiron.serialization.weight_files import (
    check_same, files_of_weights, is_finite, is_of_torch, read_weights, shards_of,
)  # fmt: skip

__all__ = [
    "Differences",
    "Record",
    "check_same",
    "chunks",
    "files_of_weights",
    "is_finite",
    "is_of_torch",
    "load",
    "load_file",
    "load_record",
    "load_tensors",
    "most_numbers",
    "read_weights",
    "save",
    "save_file",
    "save_tensors",
    "shards_of",
]


def __getattr__(name: str) -> Any:
    """The recorders of the lab, `Recorder` and `CompactRecorder`.

    Raises: DataError if it is not installed.
    """
    if name not in ("CompactRecorder", "Recorder"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(wings.required("records", f"serialization.{name}", errors.DataError))[name]
