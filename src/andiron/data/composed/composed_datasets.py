"""Data sets made from others: subsets, mapped samples, concatenations.

    >>> import torch
    >>> from andiron.data import ArrayDataset, Concatenated, Partial
    >>> series = ArrayDataset(torch.arange(6.0), torch.arange(6))
    >>> Partial(series, [5, 0]).__getitems__([0, 1]).targets
    tensor([5, 0])
    >>> Concatenated([series, series]).__getitems__([5, 6]).targets
    tensor([5, 0])
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, Subset

from andiron import errors
from andiron.data import structures
from andiron.data.augment.sample_random import Draws
from andiron.data.composed.torch_samples import SampleBySample
from andiron.data.dataset import (
    ArrayDataset, Classes, Dataset, Indices, RawBatch, WeightedBatch, all_targets, drawn,
    sample_name, uses_default_generators,
)  # fmt: skip
from andiron.data.on_disk.stored import StoredDataset

SAMPLES_AT_ONCE = 1024  # gathered where targets come only together with inputs


class Derived(ABC):
    """Samples derived from `dataset`, or from several; abstract: see `drawn`."""

    dataset: Dataset

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def drawn(self, indices: Indices, draws: Draws | None) -> Any:
        """A batch; random transforms of `dataset` take their numbers from `draws`."""

    def __getitems__(self, indices: Indices) -> Any:
        """The samples at `indices`, in this order."""
        return self.drawn(indices, None)

    @property
    def uses_default_generators(self) -> bool:
        """Whether samples may draw from the generators of torch, NumPy and Python."""
        return uses_default_generators(self.dataset)


class Partial(Derived):
    """The samples of `dataset` at `indices`, in this order; an index may repeat.

    `Partial(dataset, range(start, end))` is a slice.
    Raises: IndexError for an index out of range.
    """

    def __init__(self, dataset: Dataset, indices: Indices):
        self.dataset = dataset
        self.indices = _index_tensor(indices, len(dataset))

    def __len__(self) -> int:
        return len(self.indices)

    def drawn(self, indices: Indices, draws: Draws | None) -> Any:
        return drawn(self.dataset, self.indices[_index_tensor(indices, len(self))], draws)

    def sample_name(self, index: int) -> str | None:
        """The name of a sample in `dataset`."""
        return sample_name(self.dataset, int(self.indices[index]))

    @property
    def targets(self) -> Tensor | None:
        """All targets; None if they are known only with the inputs."""
        targets = all_targets(self.dataset)
        return None if targets is None else targets[self.indices.to(targets.device)]


@dataclass(eq=False)
class Mapped(Derived):
    """The samples of `dataset` as `function` returns them: whole batches, in the same order."""

    dataset: Dataset
    function: Callable[[Any], Any]

    def __len__(self) -> int:
        return len(self.dataset)

    def drawn(self, indices: Indices, draws: Draws | None) -> Any:
        return self.function(drawn(self.dataset, _index_tensor(indices, len(self)), draws))

    def sample_name(self, index: int) -> str | None:
        """The name of a sample in `dataset`."""
        return sample_name(self.dataset, index)


class Concatenated(Derived):
    """The samples of several data sets in a row; a batch is one gather from each that it needs.

    Raises: ValueError if there is no data set, one is empty, or samples differ in shape or dtype.
    """

    def __init__(self, datasets: Sequence[Dataset]):
        if not datasets:
            raise ValueError("no data set to concatenate; give at least one")
        for number, dataset in enumerate(datasets):
            if not len(dataset):
                raise ValueError(
                    f"data set {number} of {len(datasets)} is empty, counted from 0; leave it out"
                )
            kind, first = _described_shapes(dataset), _described_shapes(datasets[0])
            if kind != first:
                raise ValueError(
                    f"data set {number} has {kind}, data set 0 has {first}; "
                    "give all the same shapes and dtypes, with Mapped"
                )
        self.datasets = list(datasets)
        self._begins = torch.tensor([0, *itertools.accumulate(map(len, self.datasets))])

    def __len__(self) -> int:
        return int(self._begins[-1])

    def drawn(self, indices: Indices, draws: Draws | None) -> RawBatch | WeightedBatch:
        chosen = _index_tensor(indices, len(self))
        owners = torch.bucketize(chosen, self._begins, right=True) - 1
        parts = []
        for owner in torch.unique(owners).tolist() or [0]:
            is_owned = owners == owner
            of_owner = draws and replace(draws, indices=draws.indices[is_owned])
            places = chosen[is_owned] - self._begins[owner]
            parts.append(drawn(self.datasets[owner], places, of_owner))
        back = owners.argsort(stable=True).argsort()
        whole = map(torch.cat, zip(*parts, strict=True))
        tensors = [tensor.index_select(0, back.to(tensor.device)) for tensor in whole]
        return WeightedBatch(*tensors) if len(tensors) > 2 else RawBatch(*tensors)

    def sample_name(self, index: int) -> str | None:
        """The name of a sample in its data set."""
        owner = int(torch.bucketize(index, self._begins, right=True)) - 1
        return sample_name(self.datasets[owner], index - int(self._begins[owner]))

    @property
    def targets(self) -> Tensor | None:
        """All targets; None if one data set's are known only with its inputs."""
        known = [dataset for dataset in map(all_targets, self.datasets) if dataset is not None]
        return torch.cat(known) if len(known) == len(self.datasets) else None

    @property
    def uses_default_generators(self) -> bool:
        """Whether samples may draw from the generators of torch, NumPy and Python."""
        return any(map(uses_default_generators, self.datasets))


def chosen(dataset: Dataset, indices: Indices) -> Dataset:
    """The samples at `indices`, as the data set's own class where possible: faster to gather."""
    if isinstance(dataset, ArrayDataset | StoredDataset):
        return dataset.subset(_index_tensor(indices, len(dataset)))
    return Partial(dataset, indices)


def joined(datasets: Sequence[Dataset]) -> Dataset:
    """The samples of several data sets in a row: collated together if a batch is no pair."""
    singles = [*map(_sample_by_sample, datasets)]
    if None in singles or isinstance(datasets[0].__getitems__([0]), RawBatch | WeightedBatch):
        return Concatenated(datasets)
    return replace(singles[0], dataset=ConcatDataset([single.dataset for single in singles]))


def _sample_by_sample(dataset: object) -> Any:
    """The samples of a torch data set, read one by one; None for any other."""
    if not isinstance(dataset, Partial):
        return dataset if isinstance(dataset, SampleBySample) else None
    whole = _sample_by_sample(dataset.dataset)
    return whole and replace(whole, dataset=Subset(whole.dataset, dataset.indices.tolist()))


def targets_of(dataset: Dataset, field: str | None = None) -> Iterator[Tensor]:
    """The targets of all samples: from memory, from their file, or gathered with the inputs.

    Batches that are no pairs have them in `field`.
    Raises: DataError if that is not known, or does not have one entry a sample.
    """
    if (known := all_targets(dataset)) is not None:
        yield known.cpu()
        return
    for indices in torch.split(torch.arange(len(dataset)), SAMPLES_AT_ONCE):
        batch = dataset.__getitems__(indices)
        name = "targets" if isinstance(batch, RawBatch | WeightedBatch) else field or "targets"
        targets = structures.part(batch, name)
        if not isinstance(targets, Tensor) or targets.shape[:1] != indices.shape:
            raise errors.DataError(
                f"batches of {type(batch).__name__} have no {name!r} with an entry a sample, by "
                f"which samples are chosen, but: {', '.join(structures.fields(batch) or ())}; name "
                "the field of the class in task.targets or data.targets"
            )
        yield targets.cpu()


def classes_of(dataset: Dataset, field: str | None = None) -> Classes:
    """The class of every sample, as `targets_of`; one single class if they are not classes."""
    return torch.cat([
        targets.long() if targets.dim() == 1 and not targets.is_floating_point()
        else torch.zeros(len(targets), dtype=torch.int64)
        for targets in targets_of(dataset, field)
    ])  # fmt: skip


def _index_tensor(indices: Indices, size: int) -> Tensor:
    """The indices as a tensor on the CPU.

    Raises: IndexError naming the first index out of range; TypeError for a mask or floats.
    """
    checked = torch.as_tensor(indices, device="cpu")
    if len(checked) and (checked.dtype == torch.bool or checked.is_floating_point()):
        raise TypeError(
            f"indices are {checked.dtype}: should be whole numbers; "
            "a mask gives mask.nonzero().flatten()"
        )
    checked = checked.long()
    outside = checked[(checked < 0) | (checked >= size)]
    if len(outside):
        raise IndexError(
            f"sample {int(outside[0])}: there are {size}, counted from 0; "
            "negative ones do not count from the end"
        )
    return checked


def _described_shapes(dataset: Dataset) -> str:
    """Describes the shape and dtype of a sample and of its target."""
    batch = dataset.__getitems__([0])
    if not all(isinstance(tensor, Tensor) for tensor in batch):
        raise errors.DataError(
            f"batches of {type(batch).__name__} are not concatenated, only pairs of tensors, and "
            "samples of andiron.data.torch_dataset; use one data set, or concatenate the samples"
        )
    inputs, targets, *weights = ([*tensor.shape[1:], str(tensor.dtype)] for tensor in batch)
    return f"inputs {inputs} and targets {targets}{' and weights' if weights else ''}"
