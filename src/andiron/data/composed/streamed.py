"""A torch `IterableDataset` as samples by position, read in the order of its stream.

    >>> from torch.utils.data import IterableDataset, default_collate
    >>> class Squares(IterableDataset):
    ...     def __iter__(self):
    ...         return iter([(n, n**2) for n in range(5)])
    >>> stream = Streamed(Squares(), default_collate, size=3)
    >>> stream.__getitems__([0, 1, 2]).inputs
    tensor([0, 1, 2])
    >>> second_epoch = Draws(seed=0, epoch=1, indices=torch.arange(3))
    >>> stream.drawn([0, 1, 2], second_epoch).inputs  # after the end it begins again
    tensor([3, 4, 0])
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import _utils

from andiron import errors, randomness
from andiron.data.augment.sample_random import Draws
from andiron.data.composed.torch_samples import (
    Collate,
    collated,
    generator_states,
    generators_restored,
    seed_generators,
    set_generators,
)
from andiron.data.dataset import Indices

Stream = Iterator[Any]


class Streamed:
    """An IterableDataset: sample i of epoch e is number e * `size` + i of its stream.

    The stream is read forward; it begins again after its end, and for an earlier sample. Before
    each pass over `dataset`, counted from 0, its `set_epoch(pass)` is called if it has one. The
    default generators are seeded once at the beginning, and are the stream's own while it is read:
    the same numbers are drawn again if it is read again.
    """

    is_stream = True  # a loader keeps the order
    uses_default_generators = True

    def __init__(self, dataset: Any, collate: Collate, size: int):
        self.dataset = dataset
        self.collate = collate
        self.size = size
        self._stream: Stream | None = None
        self._seed, self._position = 0, 0  # of the next sample
        self._generators: Any = None  # their states, where the stream goes on

    def __len__(self) -> int:
        return self.size

    def __getitems__(self, indices: Indices) -> Any:
        """The samples at `indices` in the first epoch, in this order."""
        return self.drawn(indices, Draws(seed=0, epoch=0, indices=torch.as_tensor(indices)))

    def drawn(self, indices: Indices, draws: Draws) -> Any:
        """The samples at `indices`, in this order: a pair as a RawBatch, others as collated.

        Raises: DataError if a pass over the data set has no sample.
        """
        listed = [draws.epoch * self.size + index for index in torch.as_tensor(indices).tolist()]
        with generators_restored():
            samples = self._read(sorted({*listed}), draws.seed)
            seed_generators(randomness.derive(draws.seed, "collate", draws.epoch, *listed[:1]))
            return collated(self, [samples[position] for position in listed])

    def restart(self) -> None:
        """Begins again at the next sample; open files of the stream are closed."""
        self._stream = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stream": None}  # a process that receives it begins again

    def _read(self, positions: list[int], seed: int) -> dict[int, Any]:
        """The samples at these positions, ascending; skips those between."""
        samples = {}
        with _without_worker():
            if self._stream is None or seed != self._seed or positions[0] < self._position:
                seed_generators(randomness.derive(seed, "stream"))
                self._stream, self._seed, self._position = self._passes(), seed, 0
            else:
                set_generators(self._generators)
            for position in positions:
                while self._position <= position:
                    sample = next(self._stream)
                    self._position += 1
                samples[position] = sample
        self._generators = generator_states()
        return samples

    def _passes(self) -> Stream:
        number = 0
        while True:
            if hasattr(self.dataset, "set_epoch"):
                self.dataset.set_epoch(number)
            is_empty = True
            for sample in self.dataset:
                is_empty = False
                yield sample
            if is_empty:
                name, what = type(self.dataset).__name__, f"pass {number + 1} over it has no sample"
                raise errors.DataError(f"{name}: {what}; have __iter__ begin anew each time")
            number += 1


@contextmanager
def _without_worker() -> Iterator[None]:
    """A context in which `get_worker_info()` is None: every worker process reads all samples."""
    info, _utils.worker._worker_info = _utils.worker._worker_info, None
    try:
        yield
    finally:
        _utils.worker._worker_info = info
