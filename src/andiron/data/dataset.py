"""The protocol of a data set, and its samples before and after the batcher."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

Indices = Sequence[int] | Tensor
Samples = Shaped[Tensor, "batch ..."]
Classes = Int[Tensor, " size"]  # the class of each sample


class RawBatch(NamedTuple):
    """Samples as they are stored."""

    inputs: Samples
    targets: Samples


class Batch(NamedTuple):
    """Samples as a network takes them."""

    inputs: Samples
    targets: Samples


@runtime_checkable
class Dataset(Protocol):
    """Samples by index, a batch at a time."""

    def __len__(self) -> int: ...

    def __getitems__(self, indices: Indices) -> Any:
        """The samples at `indices`, in this order, usually as a RawBatch."""
        ...


Batcher = Callable[[Any, torch.device], Any]  # stored samples -> a batch on the device


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Every tensor in a batch: in mappings and sequences, at any depth."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from tensors_in([*value.values()])
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for inner in value:
            yield from tensors_in(inner)
