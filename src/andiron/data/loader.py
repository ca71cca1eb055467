"""Batches in an order that is a function of (seed, epoch), however they are gathered.

    >>> import torch
    >>> from andiron.data import ArrayBatcher, ArrayDataset, DataLoaderBuilder
    >>> dataset = ArrayDataset(torch.arange(5.0)[:, None], torch.arange(5))
    >>> loader = DataLoaderBuilder(ArrayBatcher()).batch_size(2).shuffle(42).build(dataset)
    >>> [batch.targets.tolist() for batch in loader.epoch(0)]
    [[3, 4], [1, 0], [2]]
    >>> [batch.targets.tolist() for batch in loader.epoch(0, first_batch=1)]
    [[1, 0], [2]]
"""

import copy
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Any

import torch

from andiron import errors, randomness
from andiron.data import prefetch
from andiron.data.augment.sample_random import Augmentation
from andiron.data.batchers import ArrayBatcher, Gather, ImageBatcher, Request
from andiron.data.dataset import (
    ArrayDataset, Batch, Batcher, Dataset, is_stream, uses_default_generators,
)  # fmt: skip
from andiron.data.loading import workers
from andiron.distributed import ALONE, Sliced, World
from andiron.plain import fast_paths, private_torch

BATCHES_AHEAD = 2  # gathered by the thread while a step runs; more only costs memory
CHUNK_BYTES = 2**20  # raw inputs gathered and normalised at once; more leave the CPU's cache
ALIGNED_FLOATS = 16  # 64 bytes: a matrix product may round differently at another alignment


class DataLoader:
    """Batches of `dataset`; `batcher(raw, device)` converts stored samples to model inputs.

    The order is `randomness.permutation(len(dataset), shuffle_seed, epoch)`, without `shuffle_seed`
    the data set's own. An ArrayDataset is moved to the device and gathered there; torch's data sets
    are gathered between steps, any other by a thread ahead of the step; with `num_workers` above 0,
    worker processes gather. `augmentations` run there, from (shuffle_seed, epoch, index). All give
    the same batches. In a divided `world`, a batch is a Sliced: this process's part of it.
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
        world: World = ALONE,
    ):
        if len(dataset) == 0:
            raise ValueError("the data set is empty: no batch can be formed")
        if too_many := workers.problem(num_workers):
            raise ValueError(too_many)
        if augmentations and shuffle_seed is None:
            raise ValueError(
                "augmentations need the shuffle seed: pass one, or leave them out"
            )
        self.device = torch.device(device)
        self.dataset, self.in_memory = dataset, False
        if isinstance(dataset, ArrayDataset) and num_workers == 0:
            self.dataset, self.in_memory = dataset.to(self.device), True
        self.batcher, self.batch_size = batcher, batch_size
        self.recorded = {"shuffle": shuffle_seed, "augmentation": augmentations}  # by a run
        self.shuffle_seed = shuffle_seed
        self.num_workers = num_workers
        self.num_items = len(dataset)  # samples in an epoch
        self._world = world
        self._gather = Gather(
            self.dataset, tuple(augmentations), shuffle_seed or 0, getattr(batcher, "scale", None)
        )
        self._is_seeded = uses_default_generators(dataset)
        self._upcoming = _Upcoming()
        # in page-locked memory, from which a GPU copies during the step
        self._is_pinned = self.device.type == "cuda"
        self._workers: Any = self._started_workers() if num_workers else None

    def __len__(self) -> int:
        return -(-self.num_items // self.batch_size)

    @property
    def path(self) -> str:
        """Describes how the batches are gathered."""
        if self.num_workers:
            noun = "processes" if self.num_workers > 1 else "process"
            return f"gathered by {self.num_workers} worker {noun}"
        if self.in_memory:
            return f"in memory on {self.device}"
        return f"gathered {'between steps' if self._is_seeded else 'by a thread ahead of the step'}"

    @property
    def has_own_memory(self) -> bool:
        """Whether each batch is in new memory, into which nothing writes again."""
        own = type(self.batcher) in (ImageBatcher, ArrayBatcher)
        return own and type(self.dataset) is ArrayDataset

    def order(self, epoch: int) -> randomness.Order:
        """The indices of the epoch's samples, in order; the data set may have its `epoch_order`."""
        size, seed = self.num_items, self.shuffle_seed
        if seed is None or is_stream(self.dataset):
            return randomness.StoredOrder(size)
        if (own := getattr(self.dataset, "epoch_order", None)) is not None:
            return own(seed, epoch)
        is_listed = size <= randomness.MOST_LISTED or isinstance(self.dataset, ArrayDataset)
        return (randomness.permutation if is_listed else randomness.LongOrder)(size, seed, epoch)

    def indices(self, epoch: int, batch: int, slice_number: int | None = None) -> list[int]:
        """The indices of the samples in one batch of an epoch, or in this process's slice of it."""
        first = batch * self.batch_size
        whole = self.order(epoch)[first : first + self.batch_size].tolist()
        return whole if slice_number is None else dict(self._world.parts(whole))[slice_number]

    def batch(self, epoch: int, number: int) -> Any:
        """One batch of an epoch, both counted from 0."""
        requests = self._requests(epoch, number)
        batches = (self.batcher(self._gather(request), self.device) for request in requests)
        return next(self._sliced(batches, number) if self._world.is_divided else batches)

    def undivided(self) -> "DataLoader":
        """A loader of whole batches, of the same data in the same order."""
        loader = copy.copy(self)
        loader._world = ALONE
        return loader

    def epoch(self, epoch: int, first_batch: int = 0) -> Iterator[Any]:
        """The batches of one epoch from `first_batch` on, counted from 0; the last may be short.

        On the CPU, small batches may be slices of one tensor, of at most 1 MiB of stored inputs.
        Raises: RuntimeError if worker processes have started another epoch since.
        """
        if self.in_memory:
            batches = self._gathered_here(epoch, first_batch)
        else:
            requests = self._requests(epoch, first_batch)
            if self._workers is not None:
                raws = self._gathered_by_workers(epoch, requests)
            elif self._is_seeded:  # a thread would share the generators with the step
                raws = map(self._gathered, requests)
            else:
                raws = self._gathered_ahead(requests)
            batches = prefetch.batches(raws, self.batcher, self.device)
        return self._sliced(batches, first_batch) if self._world.is_divided else batches

    def _sliced(self, slices: Iterator[object], first_batch: int) -> Iterator[Sliced]:
        """The batches of an epoch, assembled from their non-empty slices."""
        for batch in range(first_batch, len(self)):
            size = min(self.batch_size, self.num_items - batch * self.batch_size)
            parts = self._world.parts(range(size))
            yield Sliced({number: next(slices) for number, part in parts if len(part)})

    def _requests(
        self, epoch: int, first_batch: int, batches_together: int = 1
    ) -> Iterator[Request]:
        order, number = self.order(epoch), self.batch_size * batches_together
        if self.in_memory:
            order = order[:].to(self.device)
        firsts = range(first_batch * self.batch_size, self.num_items, number)
        chunks: Any = (order[first : first + number] for first in firsts)
        if self._world.is_divided:
            chunks = (part for chunk in chunks for _, part in self._world.parts(chunk) if len(part))
        return (Request(epoch, indices) for indices in chunks)

    def _gathered_here(self, epoch: int, first_batch: int) -> Iterator[Any]:
        """Gathers and normalises several batches at once until what they are made of changes."""
        batch, batcher = first_batch, self.batcher
        if (together := self._batches_together()) > 1:
            data: Any = self.dataset
            # kept: no other object has its place in memory
            inputs, targets, version = data.inputs, data.targets, private_torch.version
            versions = version(inputs), version(targets)

            def split(request: Request) -> Iterator[Any]:
                whole = batcher(self._gather(request), self.device)
                # not split: its outputs are views, which share one version counter in autograd
                return zip(*(tensor.unsafe_split(self.batch_size) for tensor in whole))

            for parts in chain.from_iterable(map(split, self._requests(epoch, batch, together))):
                if (
                    data.inputs is not inputs or data.targets is not targets
                    or (version(inputs), version(targets)) != versions or data.weights is not None
                    or self.batcher is not batcher or self.dataset is not data
                ):
                    break
                yield Batch(*parts)
                batch += 1
        if batch < len(self):
            for request in self._requests(epoch, batch):
                yield self.batcher(self._gather(request), self.device)

    def _batches_together(self) -> int:
        """The number of batches to gather at once: above 1 only for components that allow it."""
        data: Any = self.dataset
        if (
            not self.has_own_memory
            or data.weights is not None
            or self._gather.augmentations
            or self.device.type != "cpu"
            or self._world.is_divided
            or data.inputs.is_inference()  # has no version
            or data.targets.is_inference()
            or data.inputs[0].numel() * self.batch_size % ALIGNED_FLOATS
            or not fast_paths.on["batches together"]
        ):
            return 1
        return max(1, CHUNK_BYTES // max(1, data.inputs[0].nbytes * self.batch_size))

    def _gathered_ahead(self, requests: Iterator[Request]) -> Iterator[Any]:
        gathered: deque[Future[Any]] = deque()
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="data") as thread:
            for request in requests:
                gathered.append(thread.submit(self._gathered, request))
                if len(gathered) > BATCHES_AHEAD:
                    yield gathered.popleft().result()
            while gathered:
                yield gathered.popleft().result()

    def _gathered(self, request: Request) -> Any:
        raw = self._gather(request)
        return prefetch.pinned(raw) if self._is_pinned else raw

    def _started_workers(self) -> "torch.utils.data.DataLoader[Any]":
        return torch.utils.data.DataLoader(
            self._gather,  # type: ignore[arg-type]
            batch_size=None,  # a request is a whole batch
            sampler=self._upcoming,
            num_workers=self.num_workers,
            collate_fn=_unchanged,
            persistent_workers=True,
            pin_memory=self._is_pinned,
            generator=torch.Generator(),  # its own, so that the default generator is not used
            worker_init_fn=workers.prepare_worker,
        )

    def _gathered_by_workers(self, epoch: int, requests: Iterator[Request]) -> Iterator[Any]:
        # a list: sending a tensor to a process takes a file descriptor
        plain = (request._replace(indices=request.indices.tolist()) for request in requests)
        self._upcoming.requests = plain
        for raw in workers.iterator_of(self._workers):
            if isinstance(raw, errors.AndironError):
                raise raw
            yield raw
            if self._upcoming.requests is not plain:
                why = "its worker processes have started another"
                raise RuntimeError(f"epoch {epoch} cannot continue: {why}")

    def close(self) -> None:
        """Ends the worker processes, if there are any; iterating starts new ones."""
        if (iterator := getattr(self._workers, "_iterator", None)) is not None:
            # torch does so when the last reference goes, and an exception may hold one
            iterator._shutdown_workers()
            self._workers._iterator = None

    def __iter__(self) -> Iterator[Any]:
        if self.shuffle_seed is not None:
            raise TypeError(
                "a shuffled loader has an order for each epoch: "
                "iterate over loader.epoch(0), loader.epoch(1), ..."
            )
        return self.epoch(0)


class _Upcoming:
    """The sampler of torch's loader: the requests of the next epoch."""

    requests: Iterator[Request] = iter(())

    def __iter__(self) -> Iterator[Request]:
        return self.requests


def _unchanged(batch: object) -> Any:
    return batch
