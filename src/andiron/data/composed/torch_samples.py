"""Map-style torch data sets, sample by sample, and how their samples become a batch.

    >>> import torch
    >>> from torch.utils.data import TensorDataset
    >>> from_torch(TensorDataset(torch.arange(9.0), torch.arange(9) ** 2)).__getitems__([2, 5])
    RawBatch(inputs=tensor([2., 5.]), targets=tensor([ 4, 25]))
    >>> batch = padded([{"input_ids": [5, 6, 7], "labels": 1}, {"input_ids": [8], "labels": 0}])
    >>> batch["input_ids"].tolist(), batch["attention_mask"].tolist()
    ([[5, 6, 7], [8, 0, 0]], [[1, 1, 1], [1, 0, 0]])
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import IterableDataset, _utils, default_collate

from andiron import errors, randomness
from andiron.data import structures
from andiron.data.augment.sample_random import Draws
from andiron.data.dataset import Indices, RawBatch, sample_name
from andiron.outputs import IGNORED

Collate = Callable[[list[Any]], Any]
CollateOption = Collate | Literal["padded"] | None


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
        return collated_batch(self, [self._sample(index) for index in listed])

    def drawn(self, indices: Indices, draws: Draws) -> Any:
        """A batch, with the generators seeded for each sample and for collating it."""
        samples = []
        listed, counters = torch.as_tensor(indices).tolist(), draws.indices.tolist()
        with randomness.default_generators_restored():
            for index, counter in zip(listed, counters, strict=True):
                randomness.seed_default_generators(draws.seed, "sample", draws.epoch, counter)
                samples.append(self._sample(index))
            randomness.seed_default_generators(draws.seed, "collate", draws.epoch, *counters[:1])
            return collated_batch(self, samples)

    def _sample(self, index: int) -> Any:
        try:
            return self.dataset[index]
        except Exception as error:
            error.add_note(f"sample {index} of {type(self.dataset).__name__} cannot be read")
            raise

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


def collate_of(option: CollateOption) -> Collate:
    """The function that an option names; `collated` by default."""
    return padded if option == "padded" else option or collated


def collated(samples: Any, field: Callable[[Any, Any], Any] | None = None) -> Any:
    """The batch that torch's `default_collate` makes of samples, except for lists in them.

    Lists of numbers become tensors, where torch would transpose them; lists of texts and mappings
    stay, one for each sample. Named tuples and dataclasses keep their types. `field` makes a field
    of its name and its values.
    Raises: ValueError for a field that does not make a batch, by name.
    """
    is_plain = type(samples[0]) in structures.PLAIN
    named: list[Any] = [
        dict(enumerate(sample)) if is_plain else structures.fields(sample) for sample in samples
    ]
    first = named[0]
    if first is None:
        return default_collate(samples)
    if any(fields is None or fields.keys() != first.keys() for fields in named):
        raise ValueError(f"not every sample has the fields {', '.join(map(str, first))}")
    make = field or _field
    batch = {}
    for name in first:
        try:
            batch[name] = make(name, tuple(sample[name] for sample in named))
        except (RuntimeError, TypeError, ValueError) as error:
            raise ValueError(f"field {name!r}: {errors.first_line(error)}") from error
    return [*batch.values()] if is_plain else structures.rebuilt(samples[0], batch)


def padded(samples: Any, *, value: float = 0) -> Any:
    """The batch of `collated`, with sequences of numbers padded at their end to the longest.

    Sequences are lists, and tensors that differ in their first dimension. They are padded by
    `value`; `attention_mask` and `token_type_ids` by 0, `labels` and the target of a pair by
    IGNORED. Tokens `input_ids` without an `attention_mask` get one: 1 for a token, 0 for padding.
    Raises: ValueError as `collated`.
    """
    return collated([*map(_with_mask, samples)], partial(_padded_field, value))


def _with_mask(sample: Any) -> Any:
    if not isinstance(sample, Mapping) or "input_ids" not in sample or "attention_mask" in sample:
        return sample
    return {**sample, "attention_mask": [1] * len(sample["input_ids"])}


def _padded_field(value: float, name: object, values: Any) -> Any:
    is_list = all(
        isinstance(entry, list) and isinstance(next(_inside(entry), 0), int | float)
        for entry in values
    )
    if not is_list and not all(isinstance(entry, Tensor) and entry.dim() for entry in values):
        return _field(name, values)
    fills = {"attention_mask": 0, "token_type_ids": 0, "labels": IGNORED, 1: IGNORED}
    sequences = [torch.as_tensor(entry) for entry in values]
    return pad_sequence(sequences, batch_first=True, padding_value=fills.get(name, value))


def _field(_: object, values: Any) -> Any:
    first, entry = values[0], next(_inside(values), 0)
    if structures.fields(first) is not None:
        return collated(values)
    if isinstance(first, list | tuple):
        if isinstance(entry, int | float):
            return torch.tensor(values)
        if isinstance(first, tuple):
            return collated(values)
        if isinstance(entry, str | Mapping):
            return values
    return default_collate(values)


def _inside(values: object) -> Iterator[Any]:
    """The entries of nested lists."""
    if isinstance(values, list | tuple):
        for value in values:
            yield from _inside(value)
    else:
        yield values
