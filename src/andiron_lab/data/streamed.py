"""Streams: the samples of an IterableDataset by position.

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

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import torch

from andiron import errors, randomness
from andiron.data import structures
from andiron.data.augment.sample_random import Draws
from andiron.data.composed.torch_samples import Collate, collated_batch, without_worker
from andiron.data.dataset import Indices

Stream = Iterator[Any]
TRIED_AT = 29  # the place of the sample by which `skip` is compared with reading


class Streamed:
    """An IterableDataset: sample i of epoch e is number e * `size` + i of its stream.

    The stream is read forward; it begins again after its end, and for an earlier sample. Before
    each pass over `dataset`, counted from 0, its `set_epoch(pass)` is called if it has one. The
    default generators are seeded once at the beginning, and are the stream's own while it is read:
    the same numbers are drawn again if it is read again. In the first pass, samples before the one
    asked for are left out by the data set's `skip(number)`, if it gives what reading gives.
    """

    is_stream = True  # a loader keeps the order
    uses_default_generators = True

    def __init__(self, dataset: Any, collate: Collate, size: int | None):
        self.dataset = dataset
        self.collate = collate
        self.size: int = len(dataset) if size is None else size
        self._stream: Stream | None = None
        self._seed, self._position = 0, 0  # of the next sample
        self._generators: Any = None  # their states, where the stream goes on
        self._has_skipped = False

    def __len__(self) -> int:
        return self.size

    def __getitems__(self, indices: Indices) -> Any:
        """The samples at `indices` in the first epoch, in this order."""
        return self.drawn(indices, Draws(seed=0, epoch=0, indices=torch.as_tensor(indices)))

    def drawn(self, indices: Indices, draws: Draws) -> Any:
        """The samples at `indices`, in this order: a pair as a RawBatch, others as collated.

        Raises: DataError if a pass over the data set has no sample, or the stream draws random
        numbers and has skipped samples that may have drawn some.
        """
        listed = [draws.epoch * self.size + index for index in torch.as_tensor(indices).tolist()]
        with randomness.default_generators_restored():
            samples = self._read(sorted({*listed}), draws.seed)
            randomness.seed_default_generators(draws.seed, "collate", draws.epoch, *listed[:1])
            return collated_batch(self, [samples[position] for position in listed])

    def restart(self) -> None:
        """Begins again at the next sample; open files of the stream are closed."""
        self._stream = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stream": None}  # a process that receives it begins again

    def _read(self, positions: list[int], seed: int) -> dict[int, Any]:
        """The samples at these positions, ascending; skips those between."""
        samples = {}
        with without_worker():
            stream = self._stream
            if stream is None or seed != self._seed or positions[0] < self._position:
                self._stream = stream = self._begun(positions[0], seed)
            else:
                of_torch, of_others = self._generators
                torch.default_generator.set_state(torch.frombuffer(of_torch, dtype=torch.uint8))
                randomness.restore_global_generators(of_others)
            for position in positions:
                while self._position <= position:
                    sample = next(stream)
                    self._position += 1
                samples[position] = sample
        before, self._generators = self._generators, _generator_states()
        if self._has_skipped and self._generators != before:
            raise errors.DataError(
                f"{type(self.dataset).__name__}: draws from the default generators by sample "
                f"{positions[-1]}, and what it drew before was left out by its skip(number); have "
                "skip read those samples, or remove it"
            )
        return samples

    def _begun(self, position: int, seed: int) -> Stream:
        """The stream from its beginning, or from `position` on if it can be skipped to."""
        randomness.seed_default_generators(seed, "stream")
        self._seed, self._generators = seed, _generator_states()
        rest = self._skipped(position) if position and hasattr(self.dataset, "skip") else iter(())
        first = [*itertools.islice(rest, 1)]
        self._has_skipped = bool(first) and self._generators == _generator_states()
        self._position = position if self._has_skipped else 0
        if self._has_skipped:
            return itertools.chain(first, rest)
        randomness.seed_default_generators(seed, "stream")
        return self._passes(0)

    def _skipped(self, position: int) -> Stream:
        """The stream from `position` on; nothing if skip leads elsewhere than reading.

        That is tried on one sample. Later passes may have another order, which skip may not know.
        """
        place = min(TRIED_AT, self.size - 1)
        read, tried = itertools.islice(self._pass(0), place, place + 1), self._pass(0, place)
        pair = itertools.chain(read, itertools.islice(tried, 1))
        tensors = [[*structures.tensors_in(collated_batch(self, [sample]))] for sample in pair]
        if len(tensors) == 2 and all(map(torch.equal, *tensors)):
            samples = self._pass(0, position)
            for first in samples:
                yield from itertools.chain([first], samples, self._passes(1))

    def _passes(self, number: int) -> Stream:
        while True:
            is_empty = True
            for sample in self._pass(number):
                is_empty = False
                yield sample
            number += 1
            if is_empty:
                raise errors.DataError(
                    f"{type(self.dataset).__name__}: pass {number} over it has no sample; have "
                    "__iter__ begin anew each time"
                )

    def _pass(self, number: int, skipped: int = 0) -> Stream:
        # a copy: the user's skip may be one that changes its data set
        dataset = copy.copy(self.dataset).skip(skipped) if skipped else self.dataset
        if hasattr(dataset, "set_epoch"):
            dataset.set_epoch(number)
        yield from dataset


def _generator_states() -> tuple[bytearray, dict[str, Any]]:
    """The states of the default generators of torch, and of NumPy and Python."""
    of_torch = torch.default_generator.get_state().numpy().tobytes()
    return bytearray(of_torch), randomness.global_generator_state()
