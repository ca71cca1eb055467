"""The protocol of a data set, its samples before and after the batcher, and an in-memory one."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

Indices = Sequence[int] | Tensor
Samples = Shaped[Tensor, "batch ..."]
Classes = Int[Tensor, " size"]  # the class of each sample


class RawBatch(NamedTuple):
    """Samples as they are stored."""

    inputs: Samples
    targets: Samples


class Batch(NamedTuple):
    """Samples as model inputs and targets."""

    inputs: Samples
    targets: Samples


class WeightedBatch(NamedTuple):
    """Samples, stored or as model inputs, with the weight of each in the training loss."""

    inputs: Samples
    targets: Samples
    weights: Float[Tensor, " batch"]


@runtime_checkable
class Dataset(Protocol):
    """Samples by index, a batch at a time."""

    def __len__(self) -> int: ...

    def __getitems__(self, indices: Indices) -> Any:
        """The samples at `indices`, in this order, usually as a RawBatch."""
        ...


def drawn(dataset: Dataset, indices: Indices, draws: object) -> Any:
    """The samples at `indices`; random transforms of the data set take their numbers from `draws`.

    `draws` has an index for each sample; without `draws`, or a method `drawn` of the data set, this
    is `__getitems__`.
    """
    if draws is None or not hasattr(dataset, "drawn"):
        return dataset.__getitems__(indices)
    return dataset.drawn(indices, draws)


def uses_default_generators(dataset: Dataset) -> bool:
    """Whether samples may draw from the generators of torch, NumPy and Python."""
    return bool(getattr(dataset, "uses_default_generators", False))


def is_stream(dataset: object) -> bool:
    """Whether an index is another sample in each epoch."""
    return bool(getattr(dataset, "is_stream", False))


def sample_name(dataset: object, index: int) -> str | None:
    """The name of a sample, such as its file, if the data set has `sample_name(index)`."""
    name = getattr(dataset, "sample_name", None)
    return None if name is None else name(index)


class ArrayDataset:
    """Samples in memory, by index; a whole batch is one gather.

    With `weights` [size], the loss of each training sample is weighted; its batches are
    WeightedBatch. `sample_name` gives the name of the sample at an index.
    """

    sample_name: Callable[[int], str] | None = None

    def __init__(
        self,
        inputs: Samples,
        targets: Samples,
        weights: Tensor | None = None,
        sample_name: Callable[[int], str] | None = None,
    ):
        if len(inputs) != len(targets):
            raise ValueError(
                f"{len(inputs)} inputs but {len(targets)} targets; each input needs one"
            )
        self.inputs = inputs
        self.targets = targets
        self.weights = weights
        if sample_name is not None:  # else a subclass may have a method of this name
            self.sample_name = sample_name

    def __len__(self) -> int:
        return len(self.targets)

    def __getitems__(self, indices: Indices) -> RawBatch | WeightedBatch:
        """The samples at `indices`, in this order."""
        chosen = torch.as_tensor(indices, device=self.targets.device)
        raw = RawBatch(self.inputs.index_select(0, chosen), self.targets.index_select(0, chosen))
        return raw if self.weights is None else WeightedBatch(*raw, self.weights[chosen])

    def __getitem__(self, index: int) -> RawBatch:
        return RawBatch(self.inputs[index], self.targets[index])

    def subset(self, indices: Indices) -> "ArrayDataset":
        """A data set of the samples at `indices`."""
        return ArrayDataset(*self.__getitems__(indices))

    def to(self, device: torch.device) -> "ArrayDataset":
        """A data set of the samples on `device`."""
        weights = None if self.weights is None else self.weights.to(device)
        inputs, targets = self.inputs.to(device), self.targets.to(device)
        return ArrayDataset(inputs, targets, weights, self.sample_name)


Batcher = Callable[[Any, torch.device], Any]  # stored samples -> a batch on the device


def all_targets(dataset: Dataset) -> Tensor | None:
    """The targets of all samples, if they are known without the inputs."""
    read = getattr(dataset, "read_targets", None)  # of a file
    targets = getattr(dataset, "targets", None) if read is None else read()
    return targets if isinstance(targets, Tensor) else None
