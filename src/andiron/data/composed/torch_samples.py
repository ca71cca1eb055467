"""Map-style torch data sets, sample by sample, with random transforms seeded for each sample.

    >>> import torch
    >>> from andiron.data import from_torch
    >>> squares = torch.utils.data.TensorDataset(torch.arange(9.0), torch.arange(9) ** 2)
    >>> from_torch(squares).__getitems__([2, 5])
    RawBatch(inputs=tensor([2., 5.]), targets=tensor([ 4, 25]))
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset, default_collate

from andiron import errors, randomness
from andiron.data.augment.sample_random import Draws
from andiron.data.dataset import Indices, RawBatch

Collate = Callable[[list[Any]], Any]


@dataclass(eq=False)
class SampleBySample:
    """The samples of a map-style `torch.utils.data.Dataset`, fetched one by one and collated.

    In an epoch, the default generators of torch, NumPy and Python are seeded for each sample from
    (seed, epoch, index), then restored: any transform that draws from them is reproducible.
    """

    dataset: Any
    collate: Collate
    uses_default_generators = True

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitems__(self, indices: Indices) -> Any:
        """The samples at `indices`, in this order: a pair as a RawBatch, others as collated."""
        listed = torch.as_tensor(indices).tolist()
        return collated(self, [self.dataset[index] for index in listed])

    def drawn(self, indices: Indices, draws: Draws) -> Any:
        """The same, with the generators seeded for each sample and for collating a batch."""
        samples = []
        listed, counters = torch.as_tensor(indices).tolist(), draws.indices.tolist()
        with generators_restored():
            for index, counter in zip(listed, counters, strict=True):
                seed_generators(randomness.derive(draws.seed, "sample", draws.epoch, counter))
                samples.append(self.dataset[index])
            seed_generators(randomness.derive(draws.seed, "collate", draws.epoch, *counters[:1]))
            return collated(self, samples)


def collated(source: Any, samples: list[Any]) -> Any:
    """The batch that `source.collate` makes of samples of `source.dataset`; a pair as a RawBatch.

    Raises: MismatchError if they do not make a batch.
    """
    try:
        batch = source.collate(samples)
    except Exception as error:
        what = f"{type(source.dataset).__name__}: its samples do not make a batch"
        remedy = "end its transform with one that gives tensors of one shape, or give a collate"
        errors.explain(error, what, f"{remedy} function")
        raise
    is_pair = isinstance(batch, list | tuple) and len(batch) == 2
    return RawBatch(*batch) if is_pair else batch


def from_torch(dataset: Any, collate: Collate = default_collate) -> SampleBySample:
    """A map-style torch data set, with `__len__` and `__getitem__(index)`, as a Dataset.

    `collate` makes a batch of a list of samples: a pair of tensors, inputs and targets.
    Raises: DataError for any other data set.
    """
    name = type(dataset).__name__
    if isinstance(dataset, IterableDataset):
        raise errors.DataError(
            f"{name}: is an IterableDataset, whose samples have no index; only data.train of "
            "data=torch_dataset may be one; write a map-style data set, with __len__ and "
            "__getitem__(index), or read its samples into an andiron.data.ArrayDataset"
        )
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise errors.DataError(
            f"{name}: is not a map-style torch data set; give it __len__ and __getitem__(index)"
        )
    return SampleBySample(dataset, collate)


def seed_generators(seed: int) -> None:
    """Seeds the default generators of torch, NumPy and Python."""
    torch.default_generator.manual_seed(seed)  # GPUs have none in worker processes
    random.seed(seed)
    np.random.seed(seed % 2**32)


def generator_states() -> tuple[Any, ...]:
    """The states of the default generators of torch, Python and NumPy."""
    return torch.default_generator.get_state(), random.getstate(), np.random.get_state()


def set_generators(states: tuple[Any, ...]) -> None:
    """Sets the default generators to `generator_states`."""
    of_torch, of_python, of_numpy = states
    torch.default_generator.set_state(of_torch)
    random.setstate(of_python)
    np.random.set_state(of_numpy)


@contextmanager
def generators_restored() -> Iterator[None]:
    """A context after which the default generators are as before it."""
    states = generator_states()
    try:
        yield
    finally:
        set_generators(states)
