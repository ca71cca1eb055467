"""Map-style torch data sets, sample by sample.

    >>> import torch
    >>> from torch.utils.data import TensorDataset
    >>> from_torch(TensorDataset(torch.arange(9.0), torch.arange(9) ** 2)).__getitems__([2, 5])
    RawBatch(inputs=tensor([2., 5.]), targets=tensor([ 4, 25]))
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import IterableDataset, _utils

from andiron import errors, randomness
from andiron.data.augment.sample_random import Draws
from andiron.data.composed.collating import Collate, CollateOption, collate_of
from andiron.data.dataset import Indices, RawBatch, sample_name


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
        return collated_batch(self, [self.dataset[index] for index in listed])

    def drawn(self, indices: Indices, draws: Draws) -> Any:
        """A batch, with the generators seeded for each sample and for collating it."""
        samples = []
        listed, counters = torch.as_tensor(indices).tolist(), draws.indices.tolist()
        with randomness.default_generators_restored():
            for index, counter in zip(listed, counters, strict=True):
                randomness.seed_default_generators(draws.seed, "sample", draws.epoch, counter)
                samples.append(self.dataset[index])
            randomness.seed_default_generators(draws.seed, "collate", draws.epoch, *counters[:1])
            return collated_batch(self, samples)

    def sample_name(self, index: int) -> str | None:
        """The data set's own name of a sample, if it has `sample_name(index)`."""
        return sample_name(self.dataset, index)


def collated_batch(source: Any, samples: list[Any]) -> Any:
    """The batch that `source.collate` makes of samples of `source.dataset`; a pair as a RawBatch.

    Raises: MismatchError if they do not make a batch.
    """
    try:
        with without_worker():  # there, torch collates into the type of the first sample
            batch = source.collate(samples)
    except Exception as error:
        what = f"{type(source.dataset).__name__}: its samples do not make a batch"
        remedy = "give tensors of one shape, or a collate function; sequences are padded by"
        errors.explain(error, what, f"{remedy} data.collate=padded")
        raise
    is_pair = isinstance(batch, list | tuple) and len(batch) == 2
    return RawBatch(*batch) if is_pair else batch


def from_torch(dataset: object, collate: CollateOption = None) -> SampleBySample:
    """A map-style torch data set, with `__len__` and `__getitem__(index)`, as a Dataset.

    `collate` makes a batch of a list of samples, such as a pair of inputs and targets; see
    `collated`, the default, and `padded`.
    Raises: DataError for any other data set.
    """
    name = type(dataset).__name__
    if isinstance(dataset, IterableDataset):
        raise errors.DataError(
            f"{name}: is an IterableDataset, whose samples have no index; only data.train of "
            "data=torch_dataset may be one; write a map-style data set, with __len__ and "
            "__getitem__(index), or read its samples into an andiron.data.ArrayDataset"
        )
    if isinstance(dataset, Mapping):
        splits = [*dataset]
        raise errors.DataError(
            f"{name}: holds the splits {', '.join(splits)}; name one of them: dataset_path: "
            f"<its folder>/{splits[0]} for load_from_disk, split: {splits[0]} for load_dataset, "
            f"or [{splits[0]!r}] in Python"
        )
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise errors.DataError(
            f"{name}: is not a map-style torch data set; give it __len__ and __getitem__(index)"
        )
    return SampleBySample(dataset, collate_of(collate))


@contextmanager
def without_worker() -> Iterator[None]:
    """A context in which `get_worker_info()` is None: every worker process reads all samples."""
    info, _utils.worker._worker_info = _utils.worker._worker_info, None
    try:
        yield
    finally:
        _utils.worker._worker_info = info
