"""Samples of Arrow rows: chosen columns, decoded and collated, in the order of the data set."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from andiron import errors, randomness
from andiron.data.composed.collating import padded
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
OF_ONE_LENGTH = "set data.collate=padded, or cut lists to one length"


@dataclass(frozen=True)
class Sample:
    """The columns of a sample, and how they become a batch.

    A single input and its targets make a pair; else the batch is a mapping by column.
    `picture` is the shape of decoded pictures, the columns in `pictures`.
    """

    inputs: tuple[str, ...]
    targets: str | None
    is_pair: bool
    is_padded: bool = False
    pictures: tuple[str, ...] = ()
    picture: tuple[int, ...] = ()
    resizing: Resizing = field(default_factory=Resizing)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns, the inputs first."""
        return self.inputs if self.targets is None else (*self.inputs, self.targets)


@dataclass(frozen=True, eq=False)
class ArrowDataset:
    """Samples by index, read from their files batch by batch.

    `rows` are the numbers of its rows, by default all. A shuffled epoch has the order `order`.
    """

    table: ArrowRows
    sample: Sample
    order: OrderName = "full"
    rows: Tensor | range | None = None

    def __len__(self) -> int:
        return len(self.table if self.rows is None else self.rows)

    def __getitems__(self, indices: Indices) -> Any:
        """The samples at `indices`, in this order.

        Raises: DataError for a value that is not finite, a picture that cannot be decoded, lists of
        other lengths, and a file that changed or cannot be read.
        """
        places = torch.as_tensor(indices, dtype=torch.int64)
        rows = self._rows_at(places)
        is_held = self.order == "blocks"
        values = self._held.read(places) if is_held else self._read(rows)
        columns: dict[str, Any] = {
            name: self._decoded(name, values[name], rows) for name in self.sample.names
        }
        if self.sample.is_padded:
            return self._padded(columns)
        return RawBatch(*columns.values()) if self.sample.is_pair else columns

    def _read(self, rows: Tensor) -> dict[str, Values]:
        """The columns of the rows, numbers in dtypes that every device supports."""
        columns = self.table.read(self.sample.names, rows)
        for name, values in columns.items():
            self._check_lengths(name, values, rows)
            if isinstance(values, Tensor):
                columns[name] = _portable(values)
        return columns

    def _check_lengths(self, name: str, values: Values, rows: Tensor) -> None:
        if isinstance(values, Tensor) or self.sample.is_padded or not isinstance(values[0], Tensor):
            return
        usual = self.table.columns[name].length
        row = next(row for row, value in zip(rows.tolist(), values) if len(value) != usual)
        raise errors.DataError(
            f"{self.table.row_name(row)}: the list of {name!r} has not {usual} numbers as others; "
            f"{OF_ONE_LENGTH}"
        )

    def _padded(self, columns: dict[str, Values]) -> Any:
        samples = [*zip(*columns.values(), strict=True)]
        if self.sample.is_pair:
            return RawBatch(*padded(samples))
        return padded([dict(zip(columns, values, strict=True)) for values in samples])

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
        if not isinstance(values[0], Tensor):  # bytes and texts
            return values
        return [
            self._checked(name, _portable(value), row)
            for value, row in zip(values, rows[:, None], strict=True)
        ]

    def _checked(self, name: str, values: Tensor, rows: Tensor) -> Tensor:
        if values.is_floating_point() and not values.isfinite().all():
            row = int(rows[~values.reshape(len(rows), -1).isfinite().all(1)][0])
            raise errors.DataError(
                f"{self.table.row_name(row)}: {name!r} has a NaN or an infinity; correct it, or "
                "leave the row out"
            )
        return self._column_of_numbers(name, values)

    def _column_of_numbers(self, name: str, values: Tensor) -> Tensor:
        """The numbers to predict as [samples, 1]; other values as they are."""
        is_target = self.sample.is_pair and name == self.sample.targets
        is_number = is_target and values.is_floating_point() and values.dim() == 1
        return values[:, None] if is_number else values

    def _rows_at(self, places: Tensor) -> Tensor:
        if len(places) and not 0 <= int(places.min()) <= int(places.max()) < len(self):
            raise IndexError(f"rows {int(places.min())} to {int(places.max())} of {len(self)}")
        if self.rows is None:
            return places
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
        def read(places: Tensor) -> Mapping[str, Values]:
            return self._read(self._rows_at(places))

        # a request may have the end of a window and the begin of the next
        return HeldBlocks(read, len(self), self.block, 2 * BLOCKS_OF_WINDOW)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_held"}

    @property
    def inputs(self) -> Any:
        """The column of inputs, whose dtype a run records; None for pictures and a mapping."""
        is_stored = self.sample.is_pair and not self.sample.pictures
        return self.table.columns[self.sample.inputs[0]] if is_stored else None

    def read_targets(self) -> Tensor | None:
        """The targets of all samples; None if there are none."""
        name = self.sample.targets
        if name is None:
            return None
        whole = self._column_of_numbers(name, _portable(self.table.read_whole(name)))
        return whole if self.rows is None else whole[self._rows_at(torch.arange(len(self)))]

    def subset(self, indices: Indices) -> "ArrowDataset":
        """A data set of the samples at `indices`, over the same files."""
        rows = self._rows_at(torch.as_tensor(indices, dtype=torch.int64))
        if len(rows) and bool((rows.diff() == 1).all()):
            return replace(self, rows=range(int(rows[0]), int(rows[-1]) + 1))
        return replace(self, rows=rows.int() if len(self.table) < 2**31 else rows)

    def sample_name(self, index: int) -> str:
        """The file of a sample and its row there."""
        return self.table.row_name(int(self._rows_at(torch.tensor([index]))[0]))


def _portable(values: Tensor) -> Tensor:
    return values.to(PORTABLE.get(values.dtype, values.dtype))
