"""Any file of named arrays: inputs of one name, targets of another, in memory or read as they are asked for."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from andiron import errors
from andiron.data import fingerprint, standardisation
from andiron.data.composed import fractions
from andiron.data.on_disk import named_arrays, stored
from andiron.data.array_batcher import ArrayBatcher, Numbers
from andiron.data.arrays import ArrayDataset
from andiron.data.splits import Splits
from andiron.data.on_disk.stored import StoredArray, StoredDataset
from andiron.outputs import IGNORED
from andiron.ranges import Number, Positive, Proportion, Seed, Validation

IN_MEMORY_BYTES = (
    2**30
)  # more takes seconds to read, and may not fit beside a network on a small GPU
MOST_CLASSES = 2**20  # more are no classes but numbers, and would make a last layer of gigabytes
ROWS_AT_ONCE = 65_536  # of targets to predict, where their mean is taken

Statistic = float | Sequence[float]


def safetensors(
    *,
    path: str,
    inputs: str = "inputs",
    targets: str = "targets",
    valid: Validation,
    test: Proportion = 0.1,
    split_seed: Seed,
    in_memory: Literal["auto"] | bool = "auto",
    mean: Number | Sequence[Number] | None = None,
    std: Positive | Sequence[Positive] | None = None,
) -> Splits:
    """The samples of two arrays of a safetensors file: inputs of any type and shape, targets that are classes or numbers.

    Bytes are scaled to [0, 1]; `mean` and `std`, one number or one for each channel (the first dimension of a sample), are
    in that unit. Integer targets are classes, counted from 0; booleans of shape [size, labels] are labels of which several
    may hold; floats are numbers to predict, and those of shape [size] become [size, 1]. `auto` is in memory below
    IN_MEMORY_BYTES.
    Raises: DataError for what is no such file; a NaN among inputs that stay in their file is found by the batch it is in.
    """
    file = Path(path)
    arrays = named_arrays.stored(file)
    of_inputs, of_targets = (
        _named(arrays, file, "inputs", inputs),
        _columns(_named(arrays, file, "targets", targets)),
    )
    _check_sizes(of_inputs, of_targets)
    classes, facts = _described(of_targets)
    parts = fractions.parts(
        len(of_inputs), valid=valid, test=test, split_seed=split_seed, classes=classes
    )
    size = sum(len(array) * array.row_bytes for array in (of_inputs, of_targets))
    dataset = StoredDataset(of_inputs, of_targets)
    everything = (
        _loaded(dataset)
        if in_memory is True or (in_memory == "auto" and size < IN_MEMORY_BYTES)
        else dataset
    )
    train, held_out, kept_aside = (everything.subset(indices) for indices in parts)
    return Splits(
        name=file.name,
        train=train,
        valid=held_out,
        test=kept_aside,
        batcher=_batcher(of_inputs, mean, std),
        facts={"input_shape": of_inputs.shape[1:], **facts, **_unit(of_targets, parts.train)},
        fingerprint=fingerprint.of_file(file),
        validates_on_test=valid == "test",
    )


def _named(arrays: Mapping[str, StoredArray], file: Path, option: str, name: str) -> StoredArray:
    if name not in arrays:
        there = (
            ", ".join(f"{each} {list(array.shape)}" for each, array in sorted(arrays.items()))
            or "none"
        )
        raise errors.DataError(
            f"data.{option}={name}: {file} has no such array{errors.nearest(name, arrays)}; its arrays are: {there}"
        )
    return arrays[name]


def _columns(targets: StoredArray) -> StoredArray:
    """The targets, numbers to predict as columns even if there is one alone."""
    is_column = targets.dtype.is_floating_point and len(targets.shape) == 1
    return dataclasses.replace(targets, shape=(*targets.shape, 1)) if is_column else targets


def _check_sizes(inputs: StoredArray, targets: StoredArray) -> None:
    for array in (inputs, targets):
        if not array.shape or not torch.Size(array.shape).numel():
            raise errors.DataError(
                f"{array.file.path}: {array.name!r} of shape {list(array.shape)} has no rows to learn from"
            )
    if len(inputs) != len(targets):
        raise errors.DataError(
            f"{inputs.file.path}: {inputs.name!r} has {len(inputs)} rows and {targets.name!r} {len(targets)}; each input "
            "needs one target"
        )


def _described(targets: StoredArray) -> tuple[Int[Tensor, " size"] | None, dict[str, Any]]:
    """The class of every sample, where it has one, and the facts of the targets, each of which is looked at."""
    if targets.dtype.is_floating_point:
        for first, rows in targets.chunks():
            place = stored.first_not_finite(rows)
            if place is not None:
                raise stored.not_finite(targets, first + place)
        return None, {"num_outputs": torch.Size(targets.shape[1:]).numel()}
    if targets.dtype == torch.bool and len(targets.shape) == 2:
        return None, {"num_outputs": targets.shape[1]}
    classes = [_classes(targets, first, rows.long()) for first, rows in targets.chunks()]
    largest = max(int(numbers.max()) for numbers in classes)
    if not 1 <= largest < MOST_CLASSES:
        raise errors.DataError(
            f"{targets.file.path}: the largest class in {targets.name!r} is {largest}; it should be from 1 to "
            f"{MOST_CLASSES - 1}, as classes are counted from 0: store numbers to predict as floats"
        )
    return (torch.cat(classes) if len(targets.shape) == 1 else None), {"num_classes": largest + 1}


def _classes(targets: StoredArray, first: int, rows: Int[Tensor, "rows ..."]) -> Tensor:
    """The rows, none of which is negative; in targets of several a sample, some may be IGNORED. Of those, the largest."""
    wrong = rows < 0 if rows.dim() == 1 else (rows < 0) & (rows != IGNORED)
    if wrong.any():
        row = (
            int(wrong.flatten(1).any(1).nonzero()[0]) if rows.dim() > 1 else int(wrong.nonzero()[0])
        )
        raise errors.DataError(
            f"{targets.file.path}: {targets.name!r} has the class {int(rows[wrong][0])} in row {first + row}, counted from 0; "
            "classes are numbered from 0 on: number them anew"
        )
    return rows if rows.dim() == 1 else rows.max()


def _unit(targets: StoredArray, train: Tensor) -> dict[str, Any]:
    """Mean and deviation of the numbers to predict, as the samples that are trained on have them."""
    if not targets.dtype.is_floating_point or len(targets.shape) != 2:
        return {}
    mean, std = standardisation.fit_in_chunks(
        lambda: (targets.read(rows) for rows in torch.split(train, ROWS_AT_ONCE))
    )
    return {"target_mean": list(mean), "target_std": list(std)}


def _loaded(dataset: StoredDataset) -> ArrayDataset:
    """The data set in memory.

    Raises: DataError if a float in it is no finite number.
    """
    return ArrayDataset(*dataset.__getitems__(dataset.indices))


def _batcher(inputs: StoredArray, mean: Statistic | None, std: Statistic | None) -> ArrayBatcher:
    scale = 255.0 if inputs.dtype == torch.uint8 else 1.0
    if (mean, std) != (None, None) and not (
        inputs.dtype.is_floating_point or inputs.dtype == torch.uint8
    ):
        raise errors.DataError(
            f"data.mean and data.std are for floats and bytes, and {inputs.name!r} is of {inputs.dtype}; leave them null"
        )
    of_mean = _numbers("mean", 0.0 if mean is None else mean, inputs)
    of_std = _numbers("std", 1.0 if std is None else std, inputs)
    if min(of_std) <= 0:
        raise errors.DataError(f"data.std={std}: should be above 0")
    return ArrayBatcher(
        tuple(number * scale for number in of_mean), tuple(number * scale for number in of_std)
    )


def _numbers(option: str, given: Statistic, inputs: StoredArray) -> Numbers:
    numbers = tuple(map(float, given)) if isinstance(given, Sequence) else (float(given),)
    channels = inputs.shape[1] if len(inputs.shape) > 1 else 1
    if len(numbers) not in (1, channels):
        raise errors.DataError(
            f"data.{option}={given}: has {len(numbers)} numbers where a sample of {inputs.name!r} has {channels} channels; "
            "give one, or one for each"
        )
    return numbers
