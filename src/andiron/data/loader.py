"""Batches in an order that is a function of (seed, epoch), whoever gathers them."""

import signal
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from andiron import errors, randomness
from andiron.data import prefetch
from andiron.data.arrays import ArrayDataset
from andiron.data.dataset import Batcher, Dataset, RawBatch
from andiron.data.augment.sample_random import Augmentation, Draws

BATCHES_AHEAD = 2  # gathered by the thread while a step runs; more would only take memory


class DataLoader:
    """`dataset` in batches, turned by `batcher(raw, device)` into what the model takes.

    With `shuffle_seed` the order is `randomness.permutation(len(dataset), shuffle_seed, epoch)`, without it the data
    set's own. An ArrayDataset is moved to the device and gathered there; any other is gathered by a thread, ahead of
    the step; with `num_workers` above 0, worker processes gather. `augmentations` are made where samples are gathered, from
    (shuffle_seed, epoch, index). All three paths give the same batches.
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
        augmentations: Sequence[Augmentation] = (),
    ):
        if len(dataset) == 0:
            raise ValueError("the data set is empty: there is no batch to make")
        if augmentations and shuffle_seed is None:
            raise ValueError(
                "augmentations draw from the shuffle seed: give one, or leave them out"
            )
        self.device = torch.device(device)
        self.in_memory = isinstance(dataset, ArrayDataset) and num_workers == 0
        self.dataset = (
            dataset.to(self.device)
            if isinstance(dataset, ArrayDataset) and self.in_memory
            else dataset
        )
        self.batcher = batcher
        self.batch_size = batch_size
        self.shuffle_seed = shuffle_seed
        self.num_workers = num_workers
        self._gather = _Gather(self.dataset, tuple(augmentations), shuffle_seed or 0)
        self._plan = _Plan(len(dataset), batch_size, shuffle_seed)
        self._workers = (
            _workers(self._gather, self._plan, num_workers, self._is_pinned)
            if num_workers
            else None
        )

    def __len__(self) -> int:
        return len(self._plan)

    @property
    def num_items(self) -> int:
        """Samples in an epoch."""
        return self._plan.size

    @property
    def path(self) -> str:
        """How the batches are gathered, in words."""
        if self.num_workers:
            return f"gathered by {self.num_workers} worker process{'es' if self.num_workers > 1 else ''}"
        if self.in_memory:
            return f"in the memory of {self.device}"
        return f"{type(self.dataset).__name__}, gathered by a thread ahead of the step"

    def order(self, epoch: int) -> Int[Tensor, " size"]:
        """The indices of the epoch's samples, in the order they come."""
        return self._plan.order(epoch)

    def indices(self, epoch: int, batch: int) -> list[int]:
        """Which samples make up one batch of an epoch, both counted from 0."""
        indices: list[int] = self.order(epoch)[batch * self.batch_size :][
            : self.batch_size
        ].tolist()
        return indices

    def batch(self, epoch: int, number: int) -> Any:
        """One batch of an epoch, both counted from 0, gathered here and now."""
        indices = torch.tensor(
            self.indices(epoch, number), device=self.device if self.in_memory else None
        )
        return self.batcher(self._gather.__getitems__(Request(epoch, indices)), self.device)

    def epoch(self, epoch: int, first_batch: int = 0) -> Iterator[Any]:
        """The batches of one epoch from `first_batch` on, counted from 0; the last may be short.

        What comes before is not gathered, so that starting late costs no more than starting.
        Raises: RuntimeError if worker processes are asked to go on with an epoch after another has begun.
        """
        if self.in_memory:
            return self._here(self._plan.requests(epoch, first_batch, self.device))
        if self._workers is None:
            raws = self._ahead(self._plan.requests(epoch, first_batch))
        else:
            raws = self._by_workers(self._workers, epoch, first_batch)
        return prefetch.batches(raws, self.batcher, self.device)

    def _here(self, requests: "Iterator[Request]") -> Iterator[Any]:
        for request in requests:
            yield self.batcher(self._gather.__getitems__(request), self.device)

    def _ahead(self, requests: "Iterator[Request]") -> Iterator[Any]:
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="data") as thread:
            gathered = deque(
                thread.submit(self._gathered, request)
                for request in islice(requests, BATCHES_AHEAD)
            )
            while gathered:
                raw = gathered.popleft().result()
                gathered.extend(
                    thread.submit(self._gathered, request) for request in islice(requests, 1)
                )
                yield raw

    def _gathered(self, request: "Request") -> Any:
        raw = self._gather.__getitems__(request)
        return prefetch.pinned(raw) if self._is_pinned else raw

    @property
    def _is_pinned(self) -> bool:
        """Whether batches lie in page-locked memory, from which a GPU copies while the step goes on."""
        return self.device.type == "cuda"

    def _by_workers(
        self, workers: "torch.utils.data.DataLoader[Any]", epoch: int, first_batch: int
    ) -> Iterator[Any]:
        self._plan.asked = epoch, first_batch
        self._plan.begun += 1
        mine = self._plan.begun
        for raw in workers:
            if isinstance(raw, errors.DataError):
                raise raw
            yield raw
            if self._plan.begun != mine:
                raise RuntimeError(
                    f"epoch {epoch} was left for another; its worker processes have moved on"
                )

    def close(self) -> None:
        """Ends the worker processes, if there are some; iterating starts new ones."""
        iterator = getattr(self._workers, "_iterator", None)
        if self._workers is not None and iterator is not None:
            iterator._shutdown_workers()  # torch does so when the last reference goes, which an exception may hold
            self._workers._iterator = None

    def __iter__(self) -> Iterator[Any]:
        if self.shuffle_seed is not None:
            raise TypeError(
                "a shuffled loader has an order for each epoch: iterate over loader.epoch(0), loader.epoch(1), ..."
            )
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

    def augment(self, *augmentations: Augmentation) -> "DataLoaderBuilder":
        return self._with(augmentations=augmentations)

    def build(self, dataset: Dataset) -> DataLoader:
        """The loader over `dataset`."""
        return DataLoader(dataset, self._batcher, **self._options)

    def _with(self, **option: Any) -> "DataLoaderBuilder":
        self._options |= option
        return self


class Request(NamedTuple):
    """The samples of one batch, and the epoch they are for."""

    epoch: int
    indices: Int[Tensor, " batch"] | list[int]


class _Gather:
    """From a request to the samples as they are stored, augmented; what a worker process runs."""

    def __init__(self, dataset: Dataset, augmentations: tuple[Augmentation, ...], seed: int):
        self.dataset = dataset
        self.augmentations = augmentations
        self.seed = seed

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitems__(self, request: Request) -> Any:
        indices = (
            request.indices
            if isinstance(request.indices, Tensor)
            else torch.tensor(request.indices)
        )
        raw = self.dataset.__getitems__(indices)
        if type(raw) is tuple and len(raw) == 2:  # a user's own (inputs, targets)
            raw = RawBatch(*raw)
        for augmentation in self.augmentations:
            raw = augmentation(raw, Draws(self.seed, request.epoch, indices))
        return raw


class _InWorker:
    """The same in a worker process, which hands an error over as a value: torch would wrap it in its traceback."""

    def __init__(self, gather: _Gather):
        self.gather = gather

    def __len__(self) -> int:
        return len(self.gather)

    def __getitems__(self, request: Request) -> Any:
        try:
            return self.gather.__getitems__(request)
        except errors.DataError as error:
            return error


class _Plan:
    """The batches of an epoch as requests; what torch's loader calls a batch sampler."""

    def __init__(self, size: int, batch_size: int, shuffle_seed: int | None):
        self.size = size
        self.batch_size = batch_size
        self.shuffle_seed = shuffle_seed
        self.asked = (0, 0)  # the epoch that iterating gives, and its first batch
        self.begun = 0  # how many times it was iterated

    def __len__(self) -> int:
        return -(-self.size // self.batch_size)

    def order(self, epoch: int) -> Tensor:
        if self.shuffle_seed is None:
            return torch.arange(self.size)
        return randomness.permutation(self.size, self.shuffle_seed, epoch)

    def requests(
        self, epoch: int, first_batch: int = 0, device: torch.device | None = None
    ) -> Iterator[Request]:
        order = self.order(epoch)[first_batch * self.batch_size :].to(device)
        return (
            (Request(epoch, indices) for indices in torch.split(order, self.batch_size))
            if len(order)
            else iter(())
        )

    def __iter__(self) -> Iterator[Request]:
        for epoch, indices in self.requests(*self.asked):
            yield Request(epoch, indices.tolist())  # type: ignore[union-attr] # for a process: a tensor takes a file descriptor


def _workers(
    gather: _Gather, plan: _Plan, number: int, is_pinned: bool
) -> "torch.utils.data.DataLoader[Any]":
    return torch.utils.data.DataLoader(
        _InWorker(gather),  # type: ignore[arg-type]
        batch_sampler=plan,  # type: ignore[arg-type]
        num_workers=number,
        collate_fn=_as_it_is,
        persistent_workers=True,
        pin_memory=is_pinned,
        generator=torch.Generator(),  # its own: the default generators are not its to draw from
        worker_init_fn=_hear_signals_again,
    )


def _hear_signals_again(worker: int) -> None:
    """Puts back the handler of SIGTERM that the process had, in place of torch's: who signals the whole group means the parent."""
    handler = signal.getsignal(signal.SIGTERM)
    if callable(handler):
        signal.signal(signal.SIGTERM, handler)


def _as_it_is(batch: Any) -> Any:
    return batch
