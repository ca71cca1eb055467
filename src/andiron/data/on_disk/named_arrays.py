"""The arrays of a safetensors file by name, where they lie: the header is read, the data are not."""

import json
from pathlib import Path
from typing import Any

import torch

from andiron import errors
from andiron.data.on_disk.stored import StoredArray, StoredFile

DTYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16, "I32": torch.int32, "I64": torch.int64,
    "U16": torch.uint16, "U32": torch.uint32, "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32,
    "F64": torch.float64,
}  # fmt: skip
LONGEST_HEADER = 100_000_000  # bytes: the format's own limit
REMEDY = "restore it from a copy, or write it again with safetensors.torch.save_file"


def stored(path: Path) -> dict[str, StoredArray]:
    """Every array of the file by name, none of them read.

    The format: the header's length as 8 bytes, little-endian; the header, JSON: dtype, shape and data_offsets by name;
    the data, which the offsets are counted in. Source: https://github.com/huggingface/safetensors, "Format".
    Raises: DataError if the file is missing, truncated or none of these.
    """
    file = StoredFile(path)
    length = int.from_bytes(_bytes(file, 0, 8), "little") if file.size >= 8 else 0
    if not 2 <= length <= min(file.size - 8, LONGEST_HEADER):
        raise errors.DataError(
            f"{file.path}: no whole safetensors file: of its {file.size} bytes, {length} would be the header; {REMEDY}"
        )
    try:
        header: Any = json.loads(_bytes(file, 8, length))
        entries = [(name, entry) for name, entry in header.items() if name != "__metadata__"]
        return {name: _array(file, name, entry, 8 + length) for name, entry in entries}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise errors.DataError(
            f"{file.path}: no safetensors file: its header is damaged ({error}); {REMEDY}"
        ) from error


def _array(file: StoredFile, name: str, entry: dict[str, Any], data: int) -> StoredArray:
    begin, end = (int(offset) for offset in entry["data_offsets"])
    if entry["dtype"] not in DTYPES:
        raise errors.DataError(
            f"{file.path}: {name!r} is of type {entry['dtype']}, which cannot be read here; store it as one of {', '.join(DTYPES)}"
        )
    array = StoredArray(
        file,
        name,
        data + begin,
        DTYPES[entry["dtype"]],
        tuple(int(size) for size in entry["shape"]),
    )
    if data + end > file.size:
        raise errors.DataError(
            f"{file.path}: is truncated: {name!r} ends at byte {data + end}, the file at {file.size}; {REMEDY}"
        )
    length = torch.Size(array.shape).numel() * array.dtype.itemsize
    if begin < 0 or end - begin != length:
        raise ValueError(f"{name!r} has {end - begin} bytes where its shape takes {length}")
    return array


def _bytes(file: StoredFile, offset: int, length: int) -> bytearray:
    content = bytearray(length)
    file.read_into(memoryview(content), offset)
    return content
