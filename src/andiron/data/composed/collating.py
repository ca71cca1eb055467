"""Batches of samples: by torch's `default_collate` with lists as tensors, or padded.

    >>> rows = [{"input_ids": [5, 6, 7], "labels": 1}, {"input_ids": [8], "labels": 0}]
    >>> batch = padded(rows)
    >>> batch["input_ids"].tolist(), batch["attention_mask"].tolist()
    ([[5, 6, 7], [8, 0, 0]], [[1, 1, 1], [1, 0, 0]])
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import default_collate

from andiron import errors
from andiron.data import structures
from andiron.outputs import IGNORED

Collate = Callable[[list[Any]], Any]
CollateOption = Collate | Literal["padded"] | None


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
