"""Blocks of rows that stay in memory while an epoch mixes them."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

Values = Tensor | list[Any]
Read = Callable[[range], Mapping[str, Values]]  # the columns of the rows at these places


class HeldBlocks:
    """Rows by place, of which whole blocks are read; the `most` that were used last are held.

    Nothing depends on which are held.
    """

    def __init__(self, read_block: Read, block: int, most: int):
        self._read_block, self._block, self._most = read_block, block, most
        self._slots = OrderedDict[int, int]()  # of held blocks, the one used last at the end
        self._columns: dict[str, Any] = {}  # a tensor [slots, block, ...], or a list for each slot
        self._lock = threading.Lock()  # a loader may be left while its thread still gathers

    def read(self, places: Tensor) -> dict[str, Values] | None:
        """The columns of the rows, in this order; None if they are of more blocks than are held."""
        numbers, within = np.divmod(places.numpy(), self._block)
        blocks, block_of = np.unique(numbers, return_inverse=True)
        if len(blocks) > self._most:
            return None
        with self._lock:
            slots = np.array([self._slot(number) for number in blocks.tolist()])[block_of]
            return {name: _chosen(held, slots, within) for name, held in self._columns.items()}

    def _slot(self, number: int) -> int:
        if number in self._slots:
            self._slots.move_to_end(number)
            return self._slots[number]
        values = self._read_block(range(number * self._block, (number + 1) * self._block))
        if len(self._slots) < self._most:
            slot = len(self._slots)
        else:
            _, slot = self._slots.popitem(last=False)
        for name, column in values.items():
            self._hold(name, slot, column)
        self._slots[number] = slot
        return slot

    def _hold(self, name: str, slot: int, values: Values) -> None:
        if not isinstance(values, Tensor):
            self._columns.setdefault(name, [()] * self._most)[slot] = values
            return
        if name not in self._columns:
            shape = self._most, self._block, *values.shape[1:]
            self._columns[name] = torch.empty(shape, dtype=values.dtype)
        self._columns[name][slot, : len(values)] = values


def _chosen(held: Any, slots: np.ndarray, within: np.ndarray) -> Values:
    if isinstance(held, Tensor):
        rows = torch.from_numpy(slots * held.shape[1] + within)
        return held.flatten(0, 1).index_select(0, rows)
    return [held[slot][row] for slot, row in zip(slots.tolist(), within.tolist(), strict=True)]
