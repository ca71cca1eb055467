"""A data set that stays in its file: samples are read as they are asked for."""

import os
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from andiron import errors
from andiron.data.dataset import Indices, RawBatch

CHUNK_BYTES = 16 * 2**20  # of one array in memory at a time where all of it is passed over
PORTABLE = {
    torch.float64: torch.float32,
    torch.uint16: torch.int64,
    torch.uint32: torch.int64,
}  # what every device has


class StoredFile:
    """A file that is open for reading, by whatever thread; a process that it is sent to opens it for itself.

    Its bytes are read by position, not mapped. Of a map whole folios become resident (up to 2 MiB on Linux 6.18): 64 MiB
    of rows gathered at random had all of a 2 GB file in memory, and a file that shrinks under a map kills the process.
    Raises: DataError if the file is missing, or is another than it was in the process that it comes from.
    """

    def __init__(self, path: Path):
        self.path = path.absolute()
        self._open()

    def _open(self) -> None:
        try:
            self._descriptor = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise errors.DataError(
                f"{self.path}: cannot be read ({error.strerror}); put the file there"
            ) from error
        weakref.finalize(self, os.close, self._descriptor)
        found = os.fstat(self._descriptor)
        self.size = found.st_size
        self.changed_ns = found.st_mtime_ns

    def read_into(self, buffer: memoryview, offset: int) -> None:
        """Fills the buffer with the bytes from `offset` on.

        Raises: DataError if the file ends before, or the system cannot read it.
        """
        filled = 0
        while filled < len(buffer):  # one call takes at most 2 GiB
            try:
                number = os.preadv(self._descriptor, [buffer[filled:]], offset + filled)
            except OSError as error:
                raise errors.DataError(
                    f"{self.path}: cannot be read at byte {offset + filled} ({error.strerror})"
                ) from error
            if number == 0:
                raise errors.DataError(
                    f"{self.path}: has no byte {offset + filled} any more; it had {self.size} bytes when it was opened: leave a "
                    "file as it is while a run reads it"
                )
            filled += number

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "size": self.size, "changed_ns": self.changed_ns}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.path = state["path"]
        self._open()
        if (self.size, self.changed_ns) != (state["size"], state["changed_ns"]):
            raise errors.DataError(
                f"{self.path}: was changed while a run reads it; leave it as it is, and start again"
            )


@dataclass(frozen=True)
class StoredArray:
    """Where the rows of an array lie in a file, little-endian.

    `stride_bytes` is how far apart rows begin, by default the length of one; where it is less they overlap.
    """

    file: StoredFile
    name: str
    offset: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride_bytes: int | None = None

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def row_bytes(self) -> int:
        """The length of one row."""
        return torch.Size(self.shape[1:]).numel() * self.dtype.itemsize

    def read(self, indices: Indices) -> Shaped[Tensor, "batch ..."]:
        """The rows at `indices`, in their order, in memory of their own; adjacent ones in one read.

        Raises: IndexError if there is no such row; DataError if the file cannot be read.
        """
        rows = torch.as_tensor(indices, dtype=torch.int64)
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(self):
            raise IndexError(
                f"{self.name}: rows {int(rows.min())} to {int(rows.max())} of {len(self)}"
            )
        length, stride = (
            self.row_bytes,
            self.row_bytes if self.stride_bytes is None else self.stride_bytes,
        )
        content = torch.empty(len(rows) * length, dtype=torch.uint8)
        buffer = content.numpy().data
        for place, end, row in _runs(rows, longest=len(rows) if stride == length else 1):
            self.file.read_into(buffer[place * length : end * length], self.offset + row * stride)
        return content.view(self.dtype).view(len(rows), *self.shape[1:])

    def chunks(self) -> Iterator[tuple[int, Tensor]]:
        """Every row, some at a time, with the index of the first of them."""
        rows = max(1, CHUNK_BYTES // max(1, self.row_bytes))
        for first in range(0, len(self), rows):
            yield first, self.read(torch.arange(first, min(first + rows, len(self))))


class StoredDataset:
    """Samples by index, each read from its file when asked for; what is in memory is the batch, and no more.

    `indices` are the rows that it has, by default all.
    """

    def __init__(self, inputs: StoredArray, targets: StoredArray, indices: Indices | None = None):
        if len(inputs) != len(targets):
            raise ValueError(
                f"{len(inputs)} inputs but {len(targets)} targets; each input needs one"
            )
        self.inputs = inputs
        self.targets = targets
        self.indices = torch.arange(len(inputs)) if indices is None else torch.as_tensor(indices)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitems__(self, indices: Indices) -> RawBatch:
        """The samples at `indices`, in their order; float64 as float32, and wide unsigned integers as int64.

        Raises: DataError if a float in them is no finite number, or the file cannot be read.
        """
        rows = self.indices.index_select(0, torch.as_tensor(indices))
        return RawBatch(*(_read_finite(array, rows) for array in (self.inputs, self.targets)))

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        inputs, targets = self.__getitems__([index])
        return inputs[0], targets[0]

    def subset(self, indices: Indices) -> "StoredDataset":
        """The samples at `indices` as a data set of their own, over the same file."""
        return StoredDataset(
            self.inputs, self.targets, self.indices.index_select(0, torch.as_tensor(indices))
        )


def first_not_finite(rows: Shaped[Tensor, "size ..."]) -> int | None:
    """The first row with a float that is no finite number, if there is one."""
    if not rows.is_floating_point() or bool(rows.isfinite().all()):
        return None
    return int(
        (~rows.isfinite().flatten(1).all(1) if rows.dim() > 1 else ~rows.isfinite()).nonzero()[0]
    )


def not_finite(array: StoredArray, index: int) -> errors.DataError:
    """The error of a row with a float that is no finite number."""
    return errors.DataError(
        f"{array.file.path}: {array.name!r} has a NaN or infinity in row {index}, counted from 0; mend it, or leave it out"
    )


def _read_finite(array: StoredArray, rows: Tensor) -> Tensor:
    content = array.read(rows)
    content = content.to(PORTABLE.get(content.dtype, content.dtype))
    place = first_not_finite(content)
    if place is not None:
        raise not_finite(array, int(rows[place]))
    return content


def _runs(rows: Tensor, *, longest: int) -> Iterator[tuple[int, int, int]]:
    """Places (first, end) between which each row is the one after that before it, and the first row of them."""
    if longest == 1:
        return ((place, place + 1, row) for place, row in enumerate(rows.tolist()))
    begins = torch.cat(
        [torch.zeros(len(rows[:1]), dtype=torch.int64), (rows.diff() != 1).nonzero().flatten() + 1]
    )
    return zip(begins.tolist(), [*begins[1:].tolist(), len(rows)], rows[begins].tolist())
