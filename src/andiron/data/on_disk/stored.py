"""A data set that stays in its file; each batch reads its samples."""

import itertools
import math
import os
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.data.dataset import Indices, RawBatch, Samples
from andiron.disk import files
from andiron.serialization import safetensors_codec

CHUNK_BYTES = 16 * 2**20  # of one array in memory at a time while it is read whole
READABLE = (
    "BOOL", "U8", "I8", "I16", "I32", "I64", "U16", "U32", "F16", "BF16", "F32", "F64",
)  # fmt: skip
# to dtypes that every device supports
PORTABLE = {torch.float64: torch.float32, torch.uint16: torch.int64, torch.uint32: torch.int64}
PICTURE_DIMENSIONS = 4  # size, channels, height, width
REMEDY = "restore it from a copy, or write it again with safetensors.torch.save_file"


class StoredFile:
    """A file open for reading in all threads; a process that receives it reopens it.

    Its bytes are read by position, not mapped: a map makes whole folios resident (up to 2 MiB on
    Linux 6.18; 64 MiB of random rows had all of a 2 GB file in memory), and a file that shrinks
    under a map kills the process.
    Raises: DataError if the file is missing, or has changed since the sending process opened it.
    """

    def __init__(self, path: Path, sent: tuple[int, int] | None = None):
        self.path = path.absolute()
        try:
            with files.opened(self.path) as file:
                self._descriptor = os.dup(file.fileno())
        except (OSError, ValueError) as error:
            raise errors.DataError(
                f"{self.path}: cannot be read ({files.reason(error)}); put the file there"
            ) from error
        weakref.finalize(self, os.close, self._descriptor)
        self._version = sent or self._current_version()
        self.size, _ = self._version
        self.check_unchanged()

    def _current_version(self) -> tuple[int, int]:
        stat = os.fstat(self._descriptor)
        return stat.st_size, stat.st_mtime_ns

    def check_unchanged(self) -> None:
        """Raises: DataError if the file has another size or time than when it was opened."""
        if self._current_version() != self._version:
            raise errors.DataError(
                f"{self.path}: changed while a run reads it; start the run again"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredFile, (self.path, self._version)

    def read(self, offset: int, length: int) -> bytearray:
        """`length` bytes from `offset` on. Raises: DataError as `read_into`."""
        content = bytearray(length)
        self.read_into(memoryview(content), offset)
        return content

    def read_into(self, buffer: memoryview, offset: int) -> None:
        """Fills the buffer with the bytes from `offset` on.

        Raises: DataError if the file ends earlier, or cannot be read.
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
                    f"{self.path}: has no byte {offset + filled} any more; it had {self.size} "
                    "bytes "
                    "when it was opened: do not change a file while a run reads it"
                )
            filled += number


@dataclass(frozen=True)
class StoredArray:
    """The place of an array's rows in a file, little-endian."""

    file: StoredFile
    name: str
    offset: int
    dtype: torch.dtype
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def portable_dtype(self) -> torch.dtype:
        """The type in which a data set gives the rows; pictures of uint16 become float32."""
        if self.dtype == torch.uint16 and len(self.shape) == PICTURE_DIMENSIONS:
            return torch.float32
        return PORTABLE.get(self.dtype, self.dtype)

    @property
    def row_bytes(self) -> int:
        """The length of one row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    def read(self, indices: Indices) -> Samples:
        """A copy of the rows at `indices`, in this order; adjacent rows take one read.

        Raises: IndexError for an index out of range; DataError if the file cannot be read.
        """
        rows = torch.as_tensor(indices, dtype=torch.int64)
        first, last = (int(row) for row in rows.aminmax()) if len(rows) else (0, 0)
        if len(rows) and not 0 <= first <= last < len(self):
            raise IndexError(f"{self.name}: rows {first} to {last} of {len(self)}")
        length = self.row_bytes
        content = torch.empty(len(rows) * length, dtype=torch.uint8)
        buffer = content.numpy().data
        begins = (rows.diff(prepend=rows[:1] - 2) != 1).nonzero().flatten()
        runs = itertools.pairwise([*begins.tolist(), len(rows)])
        for (begin, end), row in zip(runs, rows[begins].tolist(), strict=True):
            self.file.read_into(buffer[begin * length : end * length], self.offset + row * length)
        return content.view(self.dtype).view(len(rows), *self.shape[1:])

    def chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """All rows in chunks, each with the indices of its rows."""
        number = max(1, CHUNK_BYTES // max(1, self.row_bytes))
        for indices in torch.split(torch.arange(len(self)), number):
            yield indices, self.read(indices)


class StoredDataset:
    """Samples by index, read from their file batch by batch.

    `indices` are the rows of the data set, by default all; `names` has all rows.
    """

    def __init__(
        self,
        inputs: StoredArray,
        targets: StoredArray,
        indices: Indices | None = None,
        names: Sequence[str] | None = None,
    ):
        if len(inputs) != len(targets):
            raise ValueError(
                f"{len(inputs)} inputs but {len(targets)} targets; each input needs one"
            )
        self.inputs = inputs
        self.targets = targets
        self.names = names
        self.indices = torch.arange(len(inputs)) if indices is None else torch.as_tensor(indices)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitems__(self, indices: Indices) -> RawBatch:
        """The samples at `indices`, in this order, in their `portable_dtype`.

        Raises: DataError if one of them has a non-finite value, or the file cannot be read.
        """
        rows = self.indices.index_select(0, torch.as_tensor(indices))
        inputs, targets = (
            check_finite(array, array.read(rows).to(array.portable_dtype), rows)
            for array in (self.inputs, self.targets)
        )
        return RawBatch(inputs, targets)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        inputs, targets = self.__getitems__([index])
        return inputs[0], targets[0]

    def read_targets(self) -> Tensor:
        """The targets of all samples."""
        return self.targets.read(self.indices).to(self.targets.portable_dtype)

    def subset(self, indices: Indices) -> "StoredDataset":
        """A data set of the samples at `indices`, over the same file."""
        rows = self.indices.index_select(0, torch.as_tensor(indices))
        return StoredDataset(self.inputs, self.targets, rows, self.names)

    def sample_name(self, index: int) -> str | None:
        """The name of a sample; None if the rows have none."""
        return None if self.names is None else self.names[int(self.indices[index])]


def arrays_in(path: Path) -> dict[str, StoredArray]:
    """Every array of a safetensors file by name; only the header is read.

    Raises: DataError if the file is missing, truncated or not a safetensors file, or has an array
    of a dtype that is not READABLE.
    """
    file = StoredFile(path)
    try:
        entries, _ = safetensors_codec.read_header(file.read, file.size)
    except ValueError as error:
        raise errors.DataError(
            f"{file.path}: not a whole safetensors file: {error}; {REMEDY}"
        ) from error
    arrays = {}
    for name, entry in entries.items():
        dtype = safetensors_codec.DTYPES[entry.dtype]
        if dtype not in READABLE:
            raise errors.DataError(
                f"{file.path}: {name!r} has type {dtype}, which is not supported; "
                f"store it as one of {', '.join(READABLE)}"
            )
        arrays[name] = StoredArray(file, name, entry.begin, entry.dtype, entry.shape)
    return arrays


def check_finite(array: StoredArray, rows: Samples, indices: Tensor) -> Samples:
    """The `rows` at `indices`.

    Raises: DataError naming the index of the first with a NaN or an infinity.
    """
    if rows.is_floating_point() and not rows.isfinite().all():
        is_finite = rows.isfinite().view(len(rows), -1).all(1)
        raise errors.DataError(
            f"{array.file.path}: {array.name!r} has a NaN or infinity in row "
            f"{int(indices[~is_finite][0])}, counted from 0; correct it, or leave it out"
        )
    return rows
