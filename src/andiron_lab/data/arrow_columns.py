"""Columns of Arrow files: the types that can be read by place, and how their rows are read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from andiron.data.on_disk.stored import StoredFile
from andiron_lab.data import spans
from andiron_lab.data.spans import Places

DTYPES = {
    "halffloat": torch.float16, "float": torch.float32, "double": torch.float64,
    "int8": torch.int8, "int16": torch.int16, "int32": torch.int32, "int64": torch.int64,
    "uint8": torch.uint8, "uint16": torch.uint16, "uint32": torch.uint32,
}  # fmt: skip
CONTENTS: dict[str, Callable[[memoryview], bytes | str]] = {
    "bytes": bytes, "text": lambda content: str(content, "utf-8"),
}  # fmt: skip
BITS = 8

Column = Any  # one of the classes below
Values = Tensor | list[Any]  # of a column: one tensor of all rows, or an entry for each


@dataclass(frozen=True)
class Rows:
    """Rows of the files: the number of the file and of the record batch of each, its place there.
    """

    files: Sequence[StoredFile]
    numbers: Places
    batches: Places
    within: Places


@dataclass(frozen=True)
class Numbers:
    """A number, or an array of `shape`, in each row; `begins` are the places of record batches."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    begins: Places

    def read(self, rows: Rows) -> Tensor:
        """The values [number, *shape] of the rows."""
        length = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        begins = self.begins[rows.batches] + rows.within * length
        pieces = spans.read(rows.files, rows.numbers, begins, np.full(len(begins), length))
        content = torch.from_numpy(pieces.rows(length))
        return content.view(self.dtype).view(len(begins), *self.shape)

    @property
    def row_bytes(self) -> float:
        """The length of a row."""
        return float(np.prod(self.shape)) * self.dtype.itemsize


@dataclass(frozen=True)
class Booleans:
    """A bit in each row."""

    begins: Places
    dtype = torch.bool
    shape: tuple[int, ...] = ()
    row_bytes: float = 1 / BITS

    def read(self, rows: Rows) -> Tensor:
        """The values [number] of the rows."""
        begins = self.begins[rows.batches] + rows.within // BITS
        content = spans.read(rows.files, rows.numbers, begins, np.ones_like(begins)).rows(1)
        return torch.from_numpy(content[:, 0] >> (rows.within % BITS) & 1).bool()


@dataclass(frozen=True)
class Lengthy:
    """Bytes, text, or a list of numbers in each row, between two offsets of `offset_bytes` each.

    `kind` is bytes, text, or the dtype of the numbers. `length` is that of all rows; None if they
    differ. `begins` are the places of the offsets, `contents` of what they count.
    """

    kind: str | torch.dtype
    offset_bytes: int
    begins: Places
    contents: Places
    row_bytes: float
    length: int | None = None

    @property
    def dtype(self) -> torch.dtype | None:
        """That of the numbers in lists."""
        return self.kind if isinstance(self.kind, torch.dtype) else None

    def read(self, rows: Rows) -> Values:
        """The content of each row: bytes, texts, or tensors; one tensor if all have `length`."""
        size, item = self.offset_bytes, self.dtype.itemsize if self.dtype else 1
        begins = self.begins[rows.batches] + rows.within * size
        pieces = spans.read(rows.files, rows.numbers, begins, np.full(len(begins), 2 * size))
        bounds = pieces.rows(2 * size).view(f"<i{size}").astype(np.int64)
        begins = self.contents[rows.batches] + bounds[:, 0] * item
        lengths = (bounds[:, 1] - bounds[:, 0]) * item
        pieces = spans.read(rows.files, rows.numbers, begins, lengths)
        if self.dtype is None:
            return [*map(CONTENTS[str(self.kind)], pieces.views(lengths))]
        if self.length is not None and (lengths == self.length * item).all():
            content = torch.from_numpy(pieces.rows(self.length * item))
            return content.view(self.dtype).view(len(begins), self.length)
        return [
            torch.frombuffer(bytearray(view), dtype=self.dtype) if len(view)
            else torch.empty(0, dtype=self.dtype)
            for view in pieces.views(lengths)
        ]  # fmt: skip
