"""Columns of Arrow files whose rows are read by place."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from andiron.data.on_disk.stored import StoredFile
from andiron_lab.data import file_pieces
from andiron_lab.data.file_pieces import Pieces, Places

BITS = 8

Values = Tensor | list[Any]  # of a column: one tensor of all rows, or an entry for each


@dataclass(frozen=True)
class Rows:
    """Rows of the files: the number of the file and of the record batch of each, its place there.
    """

    files: Sequence[StoredFile]
    numbers: Places
    batches: Places
    within: Places

    def pieces(self, begins: Places, lengths: Places | int) -> Pieces:
        """A piece of the file of each row."""
        return file_pieces.read(self.files, self.numbers, begins, lengths)


@dataclass(frozen=True)
class Numbers:
    """A number, or an array of `shape`, in each row; `begins` are the places of record batches."""

    row_bytes: float
    dtype: torch.dtype
    shape: tuple[int, ...]
    begins: Places
    classes: Sequence[str] | None = None  # the names of the numbers

    def read(self, rows: Rows) -> Tensor:
        """The values [number, *shape] of the rows."""
        length = math.prod(self.shape) * self.dtype.itemsize
        begins = self.begins[rows.batches] + rows.within * length
        content = torch.from_numpy(rows.pieces(begins, length).rows(length))
        return content.view(self.dtype).view(len(begins), *self.shape)


@dataclass(frozen=True)
class Booleans:
    """A bit in each row."""

    row_bytes: float
    begins: Places
    dtype = torch.bool
    classes = None

    def read(self, rows: Rows) -> Tensor:
        """The values [number] of the rows."""
        begins = self.begins[rows.batches] + rows.within // BITS
        content = rows.pieces(begins, 1).rows(1)
        return torch.from_numpy(content[:, 0] >> (rows.within % BITS) & 1).bool()


@dataclass(frozen=True)
class Lengthy:
    """Bytes, text, or a list of numbers in each row, between two offsets of `offset_bytes` each.

    `kind` is bytes, text, or the dtype of the numbers. `begins` are the places of the offsets,
    `contents` of what they count.
    """

    row_bytes: float
    kind: str | torch.dtype
    offset_bytes: int
    begins: Places
    contents: Places
    is_picture: bool = False  # by what datasets says
    dtype = None

    @property
    def is_list(self) -> bool:
        """Whether a row is a list of numbers."""
        return isinstance(self.kind, torch.dtype)

    def read(self, rows: Rows) -> list[Any]:
        """The content of each row: bytes, a text, or a tensor."""
        size = self.offset_bytes
        begins = self.begins[rows.batches] + rows.within * size
        bounds = rows.pieces(begins, 2 * size).rows(2 * size).view(f"<i{size}").astype(np.int64)
        bounds *= self.kind.itemsize if isinstance(self.kind, torch.dtype) else 1
        begins, lengths = self.contents[rows.batches] + bounds[:, 0], np.diff(bounds)[:, 0]
        pieces = rows.pieces(begins, lengths).arrays(lengths)
        return [*map(self._value, pieces)]

    @property
    def _value(self) -> Callable[[np.ndarray], Any]:
        if isinstance(self.kind, torch.dtype):
            dtype = torch.empty(0, dtype=self.kind).numpy().dtype
            return lambda content: torch.from_numpy(content.copy().view(dtype))
        if self.kind == "text":
            return lambda content: content.tobytes().decode()
        return np.ndarray.tobytes


Column = Numbers | Booleans | Lengthy
