"""Rows of a table whose inputs are in a file, and whose targets are in memory."""

from dataclasses import dataclass

import torch
from torch import Tensor

from andiron.data.dataset import Indices, RawBatch, WeightedBatch
from andiron.data.on_disk.stored import StoredArray


@dataclass(frozen=True, eq=False)
class StoredRows:
    """The samples at `rows` of `inputs`, with their targets and, if given, weights."""

    inputs: StoredArray
    rows: Tensor
    targets: Tensor
    weights: Tensor | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitems__(self, indices: Indices) -> RawBatch | WeightedBatch:
        """The samples at `indices`, in this order. Raises: DataError if the file cannot be read."""
        chosen = torch.as_tensor(indices)
        raw = RawBatch(self.inputs.read(self.rows[chosen]), self.targets[chosen])
        return raw if self.weights is None else WeightedBatch(*raw, self.weights[chosen])
