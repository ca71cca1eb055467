"""Blocks of rows that stay in memory while an epoch mixes them."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

Values = Tensor | list[Any]
Read = Callable[[Tensor], Mapping[str, Values]]  # the columns of the rows at these places


class HeldBlocks:
    """Rows by place, of which whole blocks are read; the `most` that were used last are held.

    Nothing depends on which are held.
    """

    def __init__(self, read: Read, size: int, block: int, most: int):
        self._read, self._size, self._block, self._most = read, size, block, most
        self._slots = OrderedDict[int, int]()  # of held blocks, the one used last at the end
        self._columns: dict[str, Any] = {}  # an entry for each row of each slot
        self._lock = threading.Lock()  # a loader may be left while its thread still gathers

    def read(self, places: Tensor) -> Mapping[str, Values]:
        """The columns of the rows, in this order."""
        within = places % self._block
        blocks, block_of = torch.unique(places // self._block, return_inverse=True)
        if len(blocks) > self._most:
            return self._read(places)
        with self._lock:
            rows = self._held(blocks.tolist())[block_of] * self._block + within
            return {name: _chosen(held, rows) for name, held in self._columns.items()}

    def _held(self, blocks: list[int]) -> Tensor:
        """The slots of the blocks; those that are missing are read together."""
        missing = [block for block in blocks if block not in self._slots]
        if missing:
            begins = torch.tensor(missing) * self._block
            places = begins[:, None] + torch.arange(self._block)
            is_row = places < self._size  # the last block may be short
            values = self._read(places[is_row])
            for block in blocks:
                if block in self._slots:
                    self._slots.move_to_end(block)
            for block in missing:
                is_full = len(self._slots) == self._most
                slot = self._slots.popitem(last=False)[1] if is_full else len(self._slots)
                self._slots[block] = slot
            slots = torch.tensor([self._slots[block] for block in missing])
            rows = (slots[:, None] * self._block + torch.arange(self._block))[is_row]
            for name, column in values.items():
                self._hold(name, rows, column)
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
