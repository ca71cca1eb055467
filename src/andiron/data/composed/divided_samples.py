"""Samples of a torch data set as they are divided: their groups, and windows that overlap."""

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from andiron import errors, randomness
from andiron.data import structures
from andiron.data.splitting.divided_rows import Division, Parts

log = logging.getLogger("andiron")


def values_of(dataset: Any, column: Any) -> list[Any]:
    """The value of each sample: of the data set's column, attribute or method of that name.

    A method takes an index; without any of them, it is a field of each sample. `column` may be the
    list of the values.
    Raises: DataError for a name that the data set does not have.
    """
    values, name = column, type(dataset).__name__
    if isinstance(column, str):
        has_column = column in (getattr(dataset, "column_names", None) or ())
        values = dataset[column] if has_column else getattr(dataset, column, None)
    if callable(values):
        return [values(index) for index in range(len(dataset))]
    if values is None:
        with randomness.default_generators_restored():
            values = [structures.part(dataset[index], column) for index in range(len(dataset))]
        if values[0] is None:
            raise errors.DataError(
                f"data.split: {name} has no {column!r}; give it an attribute of that name with a "
                "value for each sample, a method that takes an index, or a field in its samples"
            )
    return [value.item() if hasattr(value, "item") else value for value in values]


def check_windows(dataset: Any, division: Division, rows: Parts) -> None:
    """Warns of windows of a series that are divided at random, by the values that samples share.

    Raises: DataError naming the gap to leave between parts in order, if two parts share values.
    """
    parts, name = [part for part in rows if len(part)], type(dataset).__name__
    if division.kind == "in_order":
        for part in parts[1:]:
            first = int(part[0])
            last = before = first - 1 - division.rows_between
            while before >= 0 and _overlap(dataset, before, first):
                before -= 1
            if before < last:
                gap = first - 1 - before
                raise errors.DataError(
                    f"data.split={division.option}: sample {first} of {name} begins a part and "
                    "shares values with the samples before it, as windows of a series do; leave "
                    f"out {gap} or more: 'data.split={{gap: {gap}}}', or an attribute "
                    f"{name}.gap = {gap}"
                )
    elif division.column is None and len(parts) > 1 and _overlap(dataset, 0, 1):
        log.warning(
            "data.split: samples 0 and 1 of %s share values, as overlapping windows of a series "
            "do, and held-out samples are drawn at random: a result on them says little of new "
            "data; set data.split=in_order", name,
        )  # fmt: skip


def _overlap(dataset: Any, before: int, first: int) -> bool:
    """Whether two samples have views of the same memory, other than one that both have whole.

    Or copies of one series, from which the sample before `first` is seen to be copied too.
    """
    with randomness.default_generators_restored():
        # all alive, so that no memory is reused
        samples = [dataset[index] for index in (before, first - 1, first)]
    one, near, other = ([*_arrays(sample)] for sample in samples)
    return any(
        own.__array_interface__ != its.__array_interface__ and np.shares_memory(own, its)
        for own in one for its in other
    ) or any(
        _are_shifted(axis, first - before)
        for own in zip(one, near, other) for axis in (own, [array.T for array in own])
    )  # fmt: skip


def _are_shifted(arrays: Iterable[np.ndarray], samples: int) -> bool:
    """Whether the second array's rows continue in the third, and the first's, `samples` before."""
    one, near, other = arrays
    size = len(other) if other.ndim and one.shape == near.shape == other.shape else 0
    if np.array_equal(near, other):  # such as positions, and no series
        return False
    for rows in range(1, min(size // 2, size - 4) + 1):
        same = near[rows:]
        if np.array_equal(same[0], other[0]) and np.array_equal(same, other[:-rows]):
            shift = rows * samples
            is_there = shift < size and np.array_equal(one[shift:], other[:-shift])
            return is_there and len(np.unique(same)) > 3  # not one of two classes, or padding
    return False


def _arrays(value: Any) -> Iterator[np.ndarray]:
    """The arrays of numpy in a sample, and as such the tensors whose memory NumPy can see."""
    named = structures.fields(value)
    if named is not None or isinstance(value, list | tuple):
        for inner in value if named is None else named.values():
            yield from _arrays(inner)
    elif isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, Tensor) and value.device.type == "cpu" and value.layout == torch.strided:
        value = value.detach()
        if value.is_floating_point() and value.itemsize < 4:  # NumPy has no bfloat16
            value = value.view(torch.int16 if value.itemsize == 2 else torch.int8)
        yield value.numpy()
