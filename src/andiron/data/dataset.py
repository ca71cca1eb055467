"""What a data set is, and the two shapes its samples have on their way to a network."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Shaped
from torch import Tensor

Indices = Sequence[int] | Tensor


class RawBatch(NamedTuple):
    """Samples as they are stored."""

    inputs: Shaped[Tensor, "batch ..."]
    targets: Shaped[Tensor, "batch ..."]


class Batch(NamedTuple):
    """Samples as a network takes them."""

    inputs: Shaped[Tensor, "batch ..."]
    targets: Shaped[Tensor, "batch ..."]


@runtime_checkable
class Dataset(Protocol):
    """Samples by index, a batch at a time."""

    def __len__(self) -> int: ...

    def __getitems__(self, indices: Indices) -> Any:
        """The samples at `indices`, in their order, usually as a RawBatch."""
        ...


Batcher = Callable[
    [Any, torch.device], Any
]  # from samples as they are stored to a batch as the model takes it
