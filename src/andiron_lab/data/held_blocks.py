"""Blocks of rows that stay in memory while an epoch mixes them."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from andiron_lab.data.arrow_columns import Values

Read = Callable[[Tensor], Mapping[str, Values]]  # the columns of the rows at these places


class HeldBlocks:
    """Rows by place, of which whole blocks are read; the `most` that were used last are held.

    Nothing depends on which are held.
    """

    def __init__(self, read: Read, size: int, block: int, most: int):
        self._read, self._size, self._block, self._most = read, size, block, most
        self._slots: dict[int, int] = {}  # of the held blocks, the one used last at the end
        self._columns: dict[str, Any] = {}  # an entry for each row of each slot
        self._lock = threading.Lock()  # a loader may be left while its thread still gathers

    def read(self, places: Tensor) -> Mapping[str, Values]:
        """The columns of the rows, in this order."""
        blocks, block_of = torch.unique(places // self._block, return_inverse=True)
        if len(blocks) > self._most:
            return self._read(places)
        with self._lock:
            rows = self._held(blocks.tolist())[block_of] * self._block + places % self._block
            return {name: _chosen(held, rows) for name, held in self._columns.items()}

    def _held(self, blocks: list[int]) -> Tensor:
        """The slots of the blocks; those that are missing are read together."""
        missing = [block for block in blocks if block not in self._slots]
        if missing:
            within = torch.arange(self._block)
            places = torch.tensor(missing)[:, None] * self._block + within
            is_row = places < self._size  # the last block may be short
            columns = self._read(places[is_row])
            used = [block for block in blocks if block in self._slots]
            self._slots |= {block: self._slots.pop(block) for block in used}
            for block in missing:
                is_full = len(self._slots) == self._most
                slot = self._slots.pop(next(iter(self._slots))) if is_full else len(self._slots)
                self._slots[block] = slot
            slots = torch.tensor([self._slots[block] for block in missing])
            rows = (slots[:, None] * self._block + within)[is_row]
            for name, values in columns.items():
                self._hold(name, rows, values)
        return torch.tensor([self._slots[block] for block in blocks])

    def _hold(self, name: str, rows: Tensor, values: Values) -> None:
        number = self._most * self._block
        if isinstance(values, Tensor):
            if name not in self._columns:
                self._columns[name] = torch.empty(number, *values.shape[1:], dtype=values.dtype)
            self._columns[name].index_copy_(0, rows, values)
            return
        held = self._columns.setdefault(name, [None] * number)
        for row, value in zip(rows.tolist(), values, strict=True):
            held[row] = value


def _chosen(held: Any, rows: Tensor) -> Values:
    if isinstance(held, Tensor):
        return held.index_select(0, rows)
    return [held[row] for row in rows.tolist()]
