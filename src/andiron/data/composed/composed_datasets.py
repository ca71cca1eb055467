"""Data sets made of others: some of their samples, changed ones, several in a row, windows of them."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from andiron.data.arrays import ArrayDataset
from andiron.data.dataset import Dataset, Indices, RawBatch
from andiron.data.on_disk.stored import StoredDataset


class Partial:
    """The samples of `dataset` at `indices`, in their order; one may stand there more than once.

    `Partial(dataset, range(start, end))` has those from `start` to before `end`.
    Raises: IndexError for an index that the data set does not have.
    """

    def __init__(self, dataset: Dataset, indices: Indices):
        self.dataset = dataset
        self.indices = _checked(indices, len(dataset))

    def __len__(self) -> int:
        return len(self.indices)

    def __getitems__(self, indices: Indices) -> Any:
        """The samples at `indices`, in their order."""
        return self.dataset.__getitems__(self.indices[_checked(indices, len(self))])

    @property
    def targets(self) -> Tensor | None:
        """Of every sample; None where the data set does not tell its own."""
        targets = in_memory_targets(self.dataset)
        return None if targets is None else targets[self.indices.to(targets.device)]


class Mapped:
    """The samples of `dataset` as `function` returns them: a batch at a time, as many as it is given and in their order."""

    def __init__(self, dataset: Dataset, function: Callable[[Any], Any]):
        self.dataset = dataset
        self.function = function

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitems__(self, indices: Indices) -> Any:
        """The samples at `indices`, in their order."""
        return self.function(self.dataset.__getitems__(_checked(indices, len(self))))


class Concatenated:
    """The samples of several data sets, one after the other; a batch is one gather from each that has a part in it.

    Raises: ValueError if there is no data set, one is empty, or their samples differ in shape or type.
    """

    def __init__(self, datasets: Sequence[Dataset]):
        self.datasets = list(datasets)
        _check_alike(self.datasets)
        self._ends = torch.tensor([*itertools.accumulate(map(len, self.datasets))])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitems__(self, indices: Indices) -> RawBatch:
        """The samples at `indices`, in their order."""
        asked = _checked(indices, len(self))
        owners = torch.bucketize(asked, self._ends, right=True)
        if not len(asked):
            return self._part(0, asked)
        places = [(owners == owner).nonzero().flatten() for owner in range(len(self.datasets))]
        parts = [
            self._part(owner, asked[place]) for owner, place in enumerate(places) if len(place)
        ]
        if len(parts) == 1:
            return parts[0]
        back = torch.cat(places).argsort()
        return RawBatch(
            *(
                torch.cat(tensors).index_select(0, back.to(tensors[0].device))
                for tensors in zip(*parts)
            )
        )

    def _part(self, owner: int, asked: Int[Tensor, " batch"]) -> RawBatch:
        start = int(self._ends[owner - 1]) if owner else 0
        batch: RawBatch = self.datasets[owner].__getitems__(asked - start)
        return batch

    @property
    def targets(self) -> Tensor | None:
        """Of every sample; None where one of the data sets does not tell its own."""
        parts = [in_memory_targets(dataset) for dataset in self.datasets]
        known = [part for part in parts if part is not None]
        return torch.cat(known) if len(known) == len(parts) else None


class Windows:
    """Runs of `size` samples as one, each beginning `stride` after the one before; what does not fill a window is left out.

    Of samples of shape [...] a batch has [batch, size, ...], its targets likewise.
    Raises: ValueError for a size that no window has.
    """

    def __init__(self, dataset: Dataset, size: int, *, stride: int = 1):
        if not 1 <= size <= len(dataset):
            raise ValueError(
                f"size={size}: should be from 1 to {len(dataset)}, the samples there are"
            )
        if stride < 1:
            raise ValueError(
                f"stride={stride}: should be 1 or more samples; {size} lets no two windows overlap"
            )
        self.dataset = dataset
        self.size = size
        self.stride = stride

    def __len__(self) -> int:
        return (len(self.dataset) - self.size) // self.stride + 1

    def __getitems__(self, indices: Indices) -> RawBatch:
        """The windows at `indices`, in their order."""
        starts = _checked(indices, len(self)) * self.stride
        samples = self.dataset.__getitems__((starts[:, None] + torch.arange(self.size)).flatten())
        return RawBatch(*(tensor.unflatten(0, (len(starts), self.size)) for tensor in samples))

    @property
    def targets(self) -> Tensor | None:
        """Of every window; None where the data set does not tell its own."""
        targets = in_memory_targets(self.dataset)
        return None if targets is None else targets.unfold(0, self.size, self.stride).movedim(-1, 1)


def chosen(dataset: Dataset, indices: Indices) -> Dataset:
    """The samples at `indices`: of the same kind where the data set can make one, which loaders gather faster."""
    if isinstance(dataset, ArrayDataset | StoredDataset):
        return dataset.subset(_checked(indices, len(dataset)))
    return Partial(dataset, indices)


def in_memory_targets(dataset: Dataset) -> Tensor | None:
    """The target of every sample, where the data set has them in memory."""
    targets = getattr(dataset, "targets", None)
    return targets if isinstance(targets, Tensor) else None


def _checked(indices: Indices, size: int) -> Int[Tensor, " batch"]:
    """The indices as a tensor on the CPU.

    Raises: IndexError naming the first that is no sample's; TypeError for what are no indices, such as a mask.
    """
    asked = torch.as_tensor(indices, device="cpu")
    if len(asked) and (asked.dtype == torch.bool or asked.is_floating_point()):
        raise TypeError(
            f"indices are {asked.dtype}: should be whole numbers; those of a mask are mask.nonzero().flatten()"
        )
    asked = asked.long()
    outside = asked[(asked < 0) | (asked >= size)]
    if len(outside):
        raise IndexError(
            f"sample {int(outside[0])}: there are {size}, counted from 0; negative ones do not count from the end"
        )
    return asked


def _check_alike(datasets: Sequence[Dataset]) -> None:
    if not datasets:
        raise ValueError("there is no data set to concatenate; give one or more")
    if not all(map(len, datasets)):
        raise ValueError(
            f"data set {[*map(len, datasets)].index(0)} of {len(datasets)} is empty, counted from 0; leave it out"
        )
    kinds = [_kind(dataset) for dataset in datasets]
    for number, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise ValueError(
                f"data set {number} has {kind}, data set 0 has {kinds[0]}; give all the same shapes and types, with Mapped"
            )


def _kind(dataset: Dataset) -> str:
    """Shape and type of a sample and of its target, in words."""
    inputs, targets = (
        [*tensor.shape[1:], str(tensor.dtype)] for tensor in dataset.__getitems__([0])
    )
    return f"inputs {inputs} and targets {targets}"
