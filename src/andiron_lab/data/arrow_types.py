"""Where record batches have the values of a column, and the types that are refused, by name."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from andiron_lab.data.arrow_columns import BITS, Booleans, Column, Lengthy, Numbers

DTYPES = {
    "halffloat": torch.float16, "float": torch.float32, "double": torch.float64,
    "int8": torch.int8, "int16": torch.int16, "int32": torch.int32, "int64": torch.int64,
    "uint8": torch.uint8, "uint16": torch.uint16, "uint32": torch.uint32,
}  # fmt: skip
LENGTHY = {
    "binary": "bytes", "large_binary": "bytes", "string": "text", "large_string": "text",
}  # fmt: skip
FIELD_OF_PICTURES = "bytes"  # of datasets' Image, beside the path


class NotReadError(ValueError):
    """Why a column cannot be read by place, and what helps."""


@dataclass(frozen=True)
class Part:
    """The values of a column in one record batch, from the place `begin` of the file on.

    `shape` is of each row; None for rows with lengths of their own, whose offsets are at `offsets`
    and count from `content` on. `size` is the number of bytes. `classes` are the names of numbers.
    """

    type: Any
    kind: str | torch.dtype  # bytes, text, or the dtype of numbers
    size: float
    begin: int
    shape: tuple[int, ...] | None
    offset_bytes: int = 0
    offsets: int = 0
    content: int = 0
    classes: Any = None
    is_picture: bool = False


@dataclass(frozen=True)
class Mapped:
    """The addresses of a mapped file."""

    base: int
    size: int

    def place(self, buffer: Any) -> int:
        """The place of a buffer in the file. Raises: NotReadError if it is not there."""
        if buffer is None or not buffer.size:
            return 0
        place = buffer.address - self.base
        if not 0 <= place <= self.size - buffer.size:
            raise NotReadError(
                "is compressed, or big-endian, and rows are read by place; write the file "
                "without: pyarrow.feather.write_feather(table, path, compression='uncompressed')"
            )
        return int(place)


def part_of(whole: Any, mapped: Mapped, feature: Mapping[str, Any]) -> Part:
    """The part of a column that an array of a mapped file has; `feature` is what datasets says.

    Raises: NotReadError for a type that cannot be read by place, and missing values.
    """
    array, shape, classes = _unwrapped(whole)
    kind = str(array.type)
    is_list = kind.startswith(("list<", "large_list<"))
    content = DTYPES.get(str(array.type.value_type)) if is_list else LENGTHY.get(kind)
    if kind not in DTYPES and (shape or not (content or kind == "bool")):
        raise NotReadError(
            f"is of type {whole.type}, which is not read by place; {_remedy(whole.type)}"
        )
    _check_whole(array)
    _, first, *rest = array.buffers()
    begin = mapped.place(first)
    if content is None:
        dtype = DTYPES.get(kind, torch.bool)
        length = dtype.itemsize * math.prod(shape) if kind in DTYPES else 1 / BITS
        classes = feature.get("names") if classes is None else classes
        return Part(whole.type, dtype, length * len(whole), begin, shape, classes=classes)
    offset_bytes = 8 if kind.startswith("large_") else 4
    offsets = np.frombuffer(first, dtype=f"<i{offset_bytes}")[: len(array) + 1]
    place, item = mapped.place(rest[-1]), 1
    lengths = None
    if isinstance(content, torch.dtype):
        _check_whole(array.values)
        item, lengths = content.itemsize, _one_length(offsets)
    size = int(offsets[-1] - offsets[0]) * item + offset_bytes * len(array)
    inside = place + int(offsets[0]) * item
    return Part(
        whole.type, content, size, inside, lengths, offset_bytes, begin, place,
        is_picture=feature.get("_type") == "Image",
    )  # fmt: skip


def column_of(parts: Sequence[Part], rows: int) -> Column:
    """The column of record batches with `rows` rows."""
    first, row_bytes = parts[0], sum(part.size for part in parts) / rows
    begins = np.array([part.begin for part in parts])
    if first.kind == torch.bool:
        return Booleans(row_bytes, begins)
    shape = first.shape if all(part.shape == first.shape for part in parts) else None
    if shape is not None and isinstance(first.kind, torch.dtype):
        classes = None if first.classes is None else [*map(str, first.classes)]
        return Numbers(row_bytes, first.kind, shape, begins, classes)
    offsets, contents = (np.array(places) for places in zip(
        *((part.offsets, part.content) for part in parts), strict=True
    ))  # fmt: skip
    return Lengthy(
        row_bytes, first.kind, first.offset_bytes, offsets, contents, first.is_picture
    )


def _unwrapped(array: Any) -> tuple[Any, tuple[int, ...], Any]:
    """The array of plain values, their shape in each row, and the categories of numbers."""
    import pyarrow as pa

    types, shape = pa.types, list[int]()
    if types.is_struct(array.type) and array.type.get_field_index(FIELD_OF_PICTURES) >= 0:
        content = array.field(FIELD_OF_PICTURES)
        if LENGTHY.get(str(content.type)) == "bytes":
            _check_whole(array)
            return content, (), None
    while types.is_fixed_size_list(array.type) and array.type.list_size:
        _check_whole(array)
        shape.append(array.type.list_size)
        array = array.values
    if types.is_dictionary(array.type) and not shape:
        return array.indices, (), array.dictionary
    return array, tuple(shape), None


def _one_length(offsets: np.ndarray) -> tuple[int, ...] | None:
    """The shape of lists that all have the same length."""
    length = int(offsets[1] - offsets[0])
    return (length,) if length and (np.diff(offsets) == length).all() else None


def _check_whole(array: Any) -> None:
    if array.null_count:
        row = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
        raise NotReadError(
            f"has {array.null_count} missing values in a record batch, the first in its row {row}; "
            "fill them, or leave those rows out"
        )


def _remedy(kind: Any) -> str:
    import pyarrow as pa

    types = pa.types
    if types.is_nested(kind):
        return "make it a column for each field, lists of numbers, or arrays of one size"
    if "view" in str(kind):
        return "cast it to string or binary: polars' write_ipc(compat_level=CompatLevel.oldest())"
    if types.is_temporal(kind) or types.is_decimal(kind) or str(kind) == "uint64":
        return "cast it to int64 or float64"
    return f"cast it to one of {', '.join(DTYPES)}, bool, binary or string"
