"""Batches in an order that is a function of (seed, epoch), whoever gathers them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from andiron import randomness
from andiron.data.arrays import ArrayDataset, Indices

Batcher = Callable[[Any, torch.device], Any]


@runtime_checkable
class Dataset(Protocol):
    """Samples by index, a batch at a time."""

    def __len__(self) -> int: ...

    def __getitems__(self, indices: Indices) -> Any: ...


class DataLoader:
    """`dataset` in batches, turned by `batcher(raw, device)` into what the model takes.

    With `shuffle_seed` the order is `randomness.permutation(len(dataset), shuffle_seed, epoch)`, without it the data
    set's own. A data set in memory is moved to the device and gathered there; with `num_workers` above 0, worker
    processes gather. Both give the same batches.
    """

    def __init__(
        self,
        dataset: Dataset,
        batcher: Batcher,
        *,
        batch_size: int = 64,
        shuffle_seed: int | None = None,
        num_workers: int = 0,
        device: torch.device | str = "cpu",
    ):
        if len(dataset) == 0:
            raise ValueError("the data set is empty: there is no batch to make")
        self.device = torch.device(device)
        self.in_memory = isinstance(dataset, ArrayDataset) and num_workers == 0
        self.dataset = dataset.to(self.device) if isinstance(dataset, ArrayDataset) and self.in_memory else dataset
        self.batcher = batcher
        self.batch_size = batch_size
        self.shuffle_seed = shuffle_seed
        self._plan = _Plan(len(dataset), batch_size, shuffle_seed)
        self._workers = _workers(self.dataset, self._plan, num_workers) if num_workers else None

    def __len__(self) -> int:
        return len(self._plan)

    @property
    def num_items(self) -> int:
        """Samples in an epoch."""
        return self._plan.size

    def order(self, epoch: int) -> Int[Tensor, " size"]:
        """The indices of the epoch's samples, in the order they come."""
        return self._plan.order(epoch)

    def indices(self, epoch: int, batch: int) -> list[int]:
        """Which samples make up one batch of an epoch, both counted from 0."""
        indices: list[int] = self.order(epoch)[batch * self.batch_size :][: self.batch_size].tolist()
        return indices

    def batch(self, epoch: int, number: int) -> Any:
        """One batch of an epoch, both counted from 0, gathered here and now."""
        return self.batcher(self.dataset.__getitems__(self.indices(epoch, number)), self.device)

    def epoch(self, epoch: int) -> Iterator[Any]:
        """The batches of one epoch; the last may be short.

        Raises: RuntimeError if worker processes are asked to go on with an epoch after another has begun.
        """
        if self._workers is not None:
            yield from self._gathered_by_workers(self._workers, epoch)
            return
        order = self.order(epoch).to(self.device) if self.in_memory else self.order(epoch)
        for indices in torch.split(order, self.batch_size):
            yield self.batcher(self.dataset.__getitems__(indices), self.device)

    def _gathered_by_workers(self, workers: Iterable[Any], epoch: int) -> Iterator[Any]:
        self._plan.epoch, self._plan.begun = epoch, self._plan.begun + 1
        mine = self._plan.begun
        for raw in workers:
            yield self.batcher(raw, self.device)
            if self._plan.begun != mine:
                raise RuntimeError(f"epoch {epoch} was left for another; its worker processes have moved on")

    def __iter__(self) -> Iterator[Any]:
        if self.shuffle_seed is not None:
            raise TypeError("a shuffled loader has an order for each epoch: iterate over loader.epoch(0), loader.epoch(1), ...")
        return self.epoch(0)


class DataLoaderBuilder:
    """A DataLoader in Burn's manner: `DataLoaderBuilder(batcher).batch_size(64).shuffle(42).build(dataset)`."""

    def __init__(self, batcher: Batcher):
        self._batcher = batcher
        self._options: dict[str, Any] = {}

    def batch_size(self, size: int) -> "DataLoaderBuilder":
        return self._with(batch_size=size)

    def shuffle(self, seed: int) -> "DataLoaderBuilder":
        return self._with(shuffle_seed=seed)

    def num_workers(self, number: int) -> "DataLoaderBuilder":
        return self._with(num_workers=number)

    def device(self, device: torch.device | str) -> "DataLoaderBuilder":
        return self._with(device=device)

    def build(self, dataset: Dataset) -> DataLoader:
        """The loader over `dataset`."""
        return DataLoader(dataset, self._batcher, **self._options)

    def _with(self, **option: Any) -> "DataLoaderBuilder":
        self._options |= option
        return self


class _Plan:
    """The batches of an epoch as lists of indices; what torch's loader calls a batch sampler."""

    def __init__(self, size: int, batch_size: int, shuffle_seed: int | None):
        self.size = size
        self.batch_size = batch_size
        self.shuffle_seed = shuffle_seed
        self.epoch = 0  # the one that iterating gives
        self.begun = 0  # how many times it was iterated

    def __len__(self) -> int:
        return -(-self.size // self.batch_size)

    def order(self, epoch: int) -> Tensor:
        if self.shuffle_seed is None:
            return torch.arange(self.size)
        return randomness.permutation(self.size, self.shuffle_seed, epoch)

    def __iter__(self) -> Iterator[list[int]]:
        for indices in torch.split(self.order(self.epoch), self.batch_size):
            yield indices.tolist()


def _workers(dataset: Dataset, plan: _Plan, number: int) -> "torch.utils.data.DataLoader[Any]":
    return torch.utils.data.DataLoader(
        dataset,  # type: ignore[arg-type]
        batch_sampler=plan,
        num_workers=number,
        collate_fn=_as_it_is,
        persistent_workers=True,
        generator=torch.Generator(),  # its own: the default generators are not its to draw from
    )


def _as_it_is(batch: Any) -> Any:
    return batch
