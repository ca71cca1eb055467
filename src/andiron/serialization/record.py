"""A record, named tensors and plain values, in a safetensors file.

The lab has recorders of other formats and precisions; this module finds them by the file's name.
"""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from andiron import errors
from andiron.disk import files
from andiron.plain import wings
from andiron.serialization import safetensors_codec

Tensors = Mapping[str, Tensor]
SUFFIX = ".safetensors"
TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".tar")
OTHER_FORMATS = f"{wings.LAB}.records"
VERSION, VERSION_KEY = 1, "andiron_record"
# The module determines a record's size; other readers accept at most this many numbers.
MOST_NUMBERS = 2**24


@dataclass(frozen=True)
class Record:
    """Named tensors, and plain values.

    Values are made of dict with string keys, list, str, int, finite float, bool and None.
    """

    tensors: dict[str, Tensor]
    values: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class WritesRecords(Protocol):
    """Writes records to files, such as a `Recorder` of the lab."""

    def record(self, record: Record, path: Path | str) -> None:
        """Writes a record to a file."""


def dtype_name(dtype: torch.dtype) -> str:
    """`float32` for `torch.float32`."""
    return str(dtype).removeprefix("torch.")


def save(
    record: Record,
    path: Path | str,
    write: Callable[[Path, files.Pieces], None] = files.write_pieces,
) -> None:
    """Writes a record to a safetensors file; the default `write` is atomic.

    Raises: DataError, before anything is written, for another suffix, or a tensor or value that
    the file cannot hold.
    """
    path = Path(path)
    if path.suffix != SUFFIX:
        raise errors.DataError(
            f"{path}: the name of a safetensors record ends with {SUFFIX}; rename it"
        )
    try:
        metadata = metadata_of(record.values)
        if head_of(metadata)[1] != record.values:  # a number as a key, a tuple, NaN
            raise ValueError(f"{path}: not all of its values are those that a Record describes")
        pieces = safetensors_codec.chunks(record.tensors, metadata)
    except (TypeError, ValueError) as error:
        raise errors.DataError(str(error)) from error
    write(path, pieces)


def load(path: Path | str, *, most_numbers: int = MOST_NUMBERS) -> Record:
    """The record in a file, on the CPU; the suffix gives the format.

    Floats have their stored dtype. Safetensors files, also of other programs, are memory-mapped.
    Other files are read into memory by the lab, and refused first if they have more than about
    `most_numbers` elements.
    Raises: DataError if the file is missing, too large, or not of the format of its suffix.
    """
    path, lab = Path(path), wings.optional(OTHER_FORMATS)
    check(path)
    if path.suffix != SUFFIX:
        other: Record = lab.load(path, most_numbers)
        return other
    tensors = safetensors_codec.load_tensors(path)
    try:
        dtypes, values = head_of(safetensors_codec.header_of(path)[1])
        if dtypes and lab is None:
            raise ValueError(wings.missing_lab("the reader of other precisions"))
        return lab.restored(tensors, dtypes, values) if dtypes else Record(tensors, values)
    except (ValueError, KeyError) as error:
        raise errors.DataError(
            f"{path}: not a whole safetensors record ({error}); restore it from a copy"
        ) from error


def check(path: Path) -> None:
    """Refuses a file that is no record by its name, is missing, or is not a regular file.

    Raises: DataError; a file of torch.save is named with the command that converts it.
    """
    if path.suffix.lower() in TORCH_SUFFIXES and path.exists():
        command = shlex.join(["import-state-dict", str(path), f"{path.stem}{SUFFIX}"])
        raise errors.DataError(
            f"{path}: a file of torch.save is converted first: {wings.command(command)}; then "
            f"give {path.stem}{SUFFIX}"
        )
    if not is_record(path):
        raise errors.DataError(
            f"{path}: no record format has this suffix; use {SUFFIX}; the package {wings.LAB} "
            "reads .mpk, .json and .bpk too, with .gz if compressed"
        )
    try:
        files.check_itself(path)
    except OSError as error:
        raise safetensors_codec.not_opened(path, error) from error
    except ValueError as error:
        raise errors.DataError(f"{path}: {error}") from error


def is_record(path: Path) -> bool:
    """Whether a record can have this name."""
    lab = wings.optional(OTHER_FORMATS)
    return path.suffix == SUFFIX or (lab is not None and lab.format_of(path) is not None)


def metadata_of(values: object, dtypes: object = None) -> dict[str, str]:
    """The metadata of a safetensors file; `dtypes` names the original dtype of cast tensors."""
    head = {VERSION_KEY: VERSION, "dtypes": dtypes or {}, "values": values}
    texts = {key: json.dumps(value, ensure_ascii=False) for key, value in head.items()}
    return {"format": "pt"} | texts  # which other readers look for


def head_of(metadata: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Any]]:
    """The dtypes and values in metadata; empty for a file of another program.

    Raises: ValueError or KeyError for what `metadata_of` never writes.
    """
    if VERSION_KEY not in metadata:
        return {}, {}
    keys = VERSION_KEY, "dtypes", "values"
    return checked_head({key: files.parsed_json(metadata[key].encode()) for key in keys})


def checked_head(head: Mapping[str, object]) -> tuple[dict[str, str], dict[str, Any]]:
    """The dtypes and values in the head of a file. Raises: ValueError for another version."""
    match head:
        case {"andiron_record": int(version), "dtypes": dict(dtypes), "values": dict(values)}:
            if version == VERSION and all(isinstance(name, str) for name in dtypes.values()):
                return dtypes, values
            raise ValueError(f"it has {VERSION_KEY} {version}; this andiron reads {VERSION}")
    raise ValueError("its version, dtypes or values are missing or malformed")
