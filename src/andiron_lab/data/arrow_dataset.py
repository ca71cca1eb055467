"""Samples of Arrow rows: chosen columns, decoded and collated, in the order of the data set."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from andiron import errors, randomness
from andiron.data.composed.torch_samples import padded
from andiron.data.dataset import Indices, RawBatch
from andiron.data.on_disk import image_decoding
from andiron.data.on_disk.stored import PORTABLE
from andiron.ranges import Resizing
from andiron_lab.data.arrow_columns import Values
from andiron_lab.data.arrow_files import ArrowRows
from andiron_lab.data.block_order import BlockOrder, full_order
from andiron_lab.data.held_blocks import HeldBlocks

OrderName = Literal["full", "blocks"]
WINDOW_BYTES, WINDOW_ROWS = 2**25, 2**16  # the most that are mixed at once with `blocks`
BLOCKS_OF_WINDOW = 1024  # many: with 64, data sorted by class trained worse


@dataclass(frozen=True)
class Sample:
    """The columns of a sample, and how they become a batch.

    A single input and its targets make a pair; else the batch is a mapping by column.
    `picture` is the shape of decoded pictures, the columns in `pictures`.
    """

    inputs: tuple[str, ...]
    targets: str | None
    is_padded: bool = False
    pictures: tuple[str, ...] = ()
    picture: tuple[int, ...] = ()
    resizing: Resizing = field(default_factory=Resizing)

    @property
    def is_pair(self) -> bool:
        """Whether a batch is a pair of inputs and targets."""
        return len(self.inputs) == 1 and self.targets is not None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns, the inputs first."""
        return self.inputs if self.targets is None else (*self.inputs, self.targets)


@dataclass(frozen=True, eq=False)
class ArrowDataset:
    """Samples by index, read from their files batch by batch.

    `rows` are the numbers of its rows. A shuffled epoch has the order `order`.
    """

    table: ArrowRows
    sample: Sample
    rows: Tensor | range
    order: OrderName = "full"

    def __len__(self) -> int:
        return len(self.rows)

    def __getitems__(self, indices: Indices) -> Any:
        """The samples at `indices`, in this order.

        Raises: DataError for a value that is not finite, a picture that cannot be decoded, and a
        file that changed or cannot be read.
        """
        places = torch.as_tensor(indices, dtype=torch.int64)
        rows, sample = self._rows_at(places), self.sample
        read = self._held.read(places) if self.order == "blocks" else self._read(places)
        columns: dict[str, Any] = {
            name: self._decoded(name, values, rows) for name, values in read.items()
        }
        if not sample.is_padded:
            return RawBatch(*columns.values()) if sample.is_pair else columns
        samples = [*zip(*columns.values(), strict=True)]
        if sample.is_pair:
            return RawBatch(*padded(samples))
        return padded([dict(zip(columns, values, strict=True)) for values in samples])

    def _read(self, places: Tensor) -> dict[str, Values]:
        """The columns of the samples, numbers in dtypes that every device supports."""
        columns = self.table.read(self.sample.names, self._rows_at(places))
        return {
            name: _portable(values) if isinstance(values, Tensor) else [*map(_portable, values)]
            for name, values in columns.items()
        }

    def _decoded(self, name: str, values: Values, rows: Tensor) -> Values:
        sample = self.sample
        if name in sample.pictures:
            return torch.stack([
                image_decoding.of_picture(
                    content, f"{self.table.row_name(row)}: {name!r}", sample.picture,
                    sample.resizing,
                )
                for content, row in zip(values, rows.tolist(), strict=True)
            ])  # fmt: skip
        if isinstance(values, Tensor):
            return self._checked(name, values, rows)
        for value, row in zip(values, rows[:, None], strict=True):
            if isinstance(value, Tensor):  # of numbers; others are bytes and texts
                self._checked(name, value[None], row)
        return values

    def _checked(self, name: str, values: Tensor, rows: Tensor) -> Tensor:
        """The finite values of the rows; numbers to predict as [samples, 1]."""
        if not values.is_floating_point():
            return values
        if not values.isfinite().all():
            row = int(rows[~values.reshape(len(rows), -1).isfinite().all(1)][0])
            raise errors.DataError(
                f"{self.table.row_name(row)}: {name!r} has a NaN or an infinity; correct it, or "
                "leave the row out"
            )
        is_number = self.sample.is_pair and name == self.sample.targets and values.dim() == 1
        return values[:, None] if is_number else values

    def _rows_at(self, places: Tensor) -> Tensor:
        if len(places) and not 0 <= int(places.min()) <= int(places.max()) < len(self):
            raise IndexError(f"rows {int(places.min())} to {int(places.max())} of {len(self)}")
        if isinstance(self.rows, range):
            return places + self.rows.start
        return self.rows[places].long()

    def epoch_order(self, seed: int, epoch: int) -> randomness.Order:
        """The order of a shuffled epoch."""
        if self.order == "full":
            return full_order(len(self), seed, epoch)
        return BlockOrder(len(self), seed, epoch, block=self.block, window=BLOCKS_OF_WINDOW)

    @property
    def block(self) -> int:
        """The rows of a block, a power of 2; a window has WINDOW_ROWS at most, or WINDOW_BYTES."""
        length = sum(self.table.columns[name].row_bytes for name in self.sample.names)
        rows = min(WINDOW_ROWS, int(WINDOW_BYTES / max(length, 1.0)))
        return 1 << max(rows // BLOCKS_OF_WINDOW, 1).bit_length() - 1

    @cached_property
    def _held(self) -> HeldBlocks:
        # a request may have the end of a window and the begin of the next
        return HeldBlocks(self._read, len(self), self.block, 2 * BLOCKS_OF_WINDOW)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_held"}

    @property
    def inputs(self) -> Any:
        """The column of inputs, whose dtype a run records; None for pictures and a mapping."""
        is_stored = self.sample.is_pair and not self.sample.pictures
        return self.table.columns[self.sample.inputs[0]] if is_stored else None

    def read_targets(self) -> Tensor | None:
        """The targets of all samples; None if there are none. Raises: DataError as a batch."""
        name, rows = self.sample.targets, self._rows_at(torch.arange(len(self)))
        if name is None:
            return None
        return self._checked(name, _portable(self.table.read_whole(name)[rows]), rows)

    def subset(self, indices: Indices) -> "ArrowDataset":
        """A data set of the samples at `indices`, over the same files."""
        rows = self._rows_at(torch.as_tensor(indices, dtype=torch.int64))
        if len(rows) and bool((rows.diff() == 1).all()):
            return replace(self, rows=range(int(rows[0]), int(rows[-1]) + 1))
        return replace(self, rows=rows.int() if len(self.table) < 2**31 else rows)

    def sample_name(self, index: int) -> str:
        """The file of a sample and its row there."""
        return self.table.row_name(int(self._rows_at(torch.tensor([index]))[0]))


def _portable(values: Any) -> Any:
    is_tensor = isinstance(values, Tensor)
    return values.to(PORTABLE.get(values.dtype, values.dtype)) if is_tensor else values
