"""Two named arrays of a safetensors file, inputs and targets: in memory, or read batch by batch."""

import dataclasses
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from andiron import errors
from andiron.data.batchers import ArrayBatcher, Numbers
from andiron.data.dataset import ArrayDataset, Classes, Dataset, Samples
from andiron.data.on_disk import stored
from andiron.data.on_disk.stored import StoredArray, StoredDataset
from andiron.data.splitting import fingerprint, splits, standardisation
from andiron.data.splitting.divided_rows import Division, Parts, columns_of
from andiron.outputs import IGNORED
from andiron.plain.plain_values import Plain
from andiron.ranges import Number, Positive, Proportion, Seed, SetFiles, SplitOption, Validation
from andiron.recording import keep_arguments

# more takes seconds to read, and may not fit beside a network on a small GPU
IN_MEMORY_BYTES = 2**30
MOST_CLASSES = 2**20  # more would make a last layer of gigabytes, so they are not classes
ROWS_AT_ONCE = 65_536  # targets in memory at a time while their mean is computed

Statistic = float | Sequence[float]
log = logging.getLogger("andiron")


@keep_arguments
def safetensors(
    *,
    path: str,
    inputs: str = "inputs",
    targets: str = "targets",
    valid: Validation,
    test: Proportion = 0.1,
    split_seed: Seed,
    split: SplitOption | None = None,
    in_memory: Literal["auto"] | bool = "auto",
    mean: Number | Sequence[Number] | None = None,
    std: Positive | Sequence[Positive] | None = None,
    valid_sets: SetFiles = None,
) -> splits.Splits:
    """Inputs of any dtype and shape, and targets that are classes, labels or numbers.

    Bytes, and uint16 of shape [size, channels, height, width], are scaled to [0, 1]; `mean` and
    `std`, one number or one for each channel (the first dimension of a sample), are in that unit.
    Integer targets are classes, counted from 0; booleans of shape [size, labels] are multiple
    labels; floats are numbers to predict, and floats of shape [size] become [size, 1]. `auto` is in
    memory below IN_MEMORY_BYTES. `valid_sets` are files of further validation sets by name, whose
    arrays have the same names, shapes and dtypes. `split` divides the rows (see `Division`); its
    column is another array of the file, with a number for each row.
    Raises: DataError for any other file; a NaN in inputs that are not in memory is raised by the
    batch that has it.
    """
    file = Path(path)
    of_inputs, of_targets = _arrays(file, inputs, targets)
    classes, facts = _described(of_targets)
    values = [value for name in columns_of(split) for value in _column(file, name).tolist()]
    division = Division(len(of_inputs), split, classes, values)
    parts = division.parts(valid=valid, test=test, split_seed=split_seed)
    dataset, checksum = _dataset(of_inputs, of_targets, in_memory), fingerprint.of_file(file)

    def of_rows(rows: Parts) -> splits.Splits:
        return splits.of_parts(
            dataset.subset,
            rows,
            name=file.name,
            batcher=_batcher(of_inputs, mean, std),
            facts={"input_shape": of_inputs.shape[1:], **facts, **_unit(of_targets, rows.train)},
            fingerprint=checksum,
            division=division,
        )

    def read_set(other: str) -> tuple[Dataset, str]:
        pair = _arrays(Path(other), inputs, targets)
        for array, like in zip(pair, (of_inputs, of_targets), strict=True):
            _check_alike(array, like)
        _check_targets(pair[1], facts.get("num_classes", 0))
        return _dataset(*pair, in_memory), fingerprint.of_file(Path(other))

    return splits.with_sets(splits.of_rows(of_rows, parts), valid_sets, read_set)


def _arrays(file: Path, inputs: str, targets: str) -> tuple[StoredArray, StoredArray]:
    """The two arrays of a file; targets that are numbers of shape [size] are one column."""
    arrays = stored.arrays_in(file)
    of_inputs = _named(arrays, file, "inputs", inputs)
    of_targets = _named(arrays, file, "targets", targets)
    if of_targets.dtype.is_floating_point and len(of_targets.shape) == 1:
        of_targets = dataclasses.replace(of_targets, shape=(*of_targets.shape, 1))
    for array in (of_inputs, of_targets):
        if not array.shape or 0 in array.shape:
            raise errors.DataError(
                f"{array.file.path}: {array.name!r} of shape {list(array.shape)} "
                "has no rows to learn from"
            )
    if len(of_inputs) != len(of_targets):
        raise errors.DataError(
            f"{of_inputs.file.path}: {of_inputs.name!r} has {len(of_inputs)} rows and "
            f"{of_targets.name!r} {len(of_targets)}; each input needs one target"
        )
    return of_inputs, of_targets


def _column(file: Path, name: str) -> Tensor:
    """The array of a value for each row, by which `split` divides."""
    array = _named(stored.arrays_in(file), file, "split", name)
    return array.read(range(len(array)))


def _dataset(
    inputs: StoredArray, targets: StoredArray, in_memory: Literal["auto"] | bool
) -> StoredDataset | ArrayDataset:
    dataset = StoredDataset(inputs, targets)
    size = sum(len(array) * array.row_bytes for array in (inputs, targets))
    if in_memory is True or (in_memory == "auto" and size < IN_MEMORY_BYTES):
        made = ArrayDataset(*dataset.__getitems__(range(len(dataset))))
        for array in (inputs, targets):
            _warn_of_blurred_columns(array)
        return made
    return dataset


def _warn_of_blurred_columns(array: StoredArray) -> None:
    """Logs a column of float64, such as of Unix times, that is almost one number in float32."""
    if array.dtype == torch.float64 and len(array.shape) == 2:
        names = [f"{array.name}[:, {column}]" for column in range(array.shape[1])]
        try:
            rows = array.read(range(len(array)))
            standardisation.check(rows, names, source=str(array.file.path))
        except errors.DataError as error:
            log.warning("%s", error)


def _check_alike(array: StoredArray, like: StoredArray) -> None:
    """Refuses samples of another shape or dtype than the training data's."""
    own, expected = (f"{list(value.shape[1:])} of {value.dtype}" for value in (array, like))
    if own != expected:
        raise errors.DataError(
            f"{array.file.path}: a row of {array.name!r} is {own}, and of the training data "
            f"{expected}; convert it"
        )


def _check_targets(targets: StoredArray, num_classes: int) -> None:
    """Refuses targets that are not finite, or not one of the classes."""
    for classes in _classes(targets) or ():
        if (largest := int(classes.max())) >= num_classes:
            raise errors.DataError(
                f"{targets.file.path}: {targets.name!r} has the class {largest}, and the "
                f"training data have {num_classes}, counted from 0; remove those samples"
            )


def _named(arrays: Mapping[str, StoredArray], file: Path, option: str, name: str) -> StoredArray:
    if name not in arrays:
        there = ", ".join(f"{array} {[*arrays[array].shape]}" for array in sorted(arrays)) or "none"
        raise errors.DataError(
            f"data.{option}={name}: {file} has no such array{errors.nearest(name, arrays)}; "
            f"its arrays are: {there}"
        )
    return arrays[name]


def _described(targets: StoredArray) -> tuple[Classes | None, Plain]:
    """The class of every sample, if any, and the facts of the checked targets."""
    classes = _classes(targets)
    if classes is None:
        return None, {"num_outputs": math.prod(targets.shape[1:])}
    largest = max(int(numbers.max()) for numbers in classes)
    if not 1 <= largest < MOST_CLASSES:
        raise errors.DataError(
            f"{targets.file.path}: the largest class in {targets.name!r} is {largest}; it should "
            f"be from 1 to {MOST_CLASSES - 1}, as classes are counted from 0: store numbers to "
            "predict as floats"
        )
    return (torch.cat(classes) if len(targets.shape) == 1 else None), {"num_classes": largest + 1}


def _classes(targets: StoredArray) -> list[Tensor] | None:
    """The checked classes in chunks; None for values to predict, which are checked, and labels."""
    if targets.dtype.is_floating_point:
        for indices, rows in targets.chunks():
            stored.check_finite(targets, rows, indices)
    elif targets.dtype != torch.bool or len(targets.shape) != 2:
        return [_checked_classes(targets, *chunk) for chunk in targets.chunks()]
    return None


def _checked_classes(targets: StoredArray, indices: Tensor, rows: Samples) -> Tensor:
    """The checked rows, or the largest of several targets a sample; some may be IGNORED."""
    rows = rows.long()
    wrong = rows < 0 if rows.dim() == 1 else (rows < 0) & (rows != IGNORED)
    if wrong.any():
        row = int(indices[wrong.nonzero()[0, 0]])
        raise errors.DataError(
            f"{targets.file.path}: {targets.name!r} has the class {int(rows[wrong][0])} in row "
            f"{row}, counted from 0; classes are numbered from 0 on: renumber them"
        )
    return rows if rows.dim() == 1 else rows.max()


def _unit(targets: StoredArray, train: Tensor) -> Plain:
    """Mean and standard deviation of the numbers to predict, in the training samples."""
    if not targets.dtype.is_floating_point or len(targets.shape) != 2:
        return {}
    mean, std = standardisation.fit_in_chunks(
        lambda: (targets.read(rows) for rows in torch.split(train, ROWS_AT_ONCE))
    )
    return {"target_mean": list(mean), "target_std": list(std)}


def _batcher(inputs: StoredArray, mean: Statistic | None, std: Statistic | None) -> ArrayBatcher:
    is_float = inputs.portable_dtype.is_floating_point
    given = mean is not None or std is not None
    if given and not (is_float or inputs.dtype == torch.uint8):
        raise errors.DataError(
            f"data.mean and data.std are for floats and bytes, and {inputs.name!r} is "
            f"{inputs.dtype}; leave them null"
        )
    scale = {torch.uint8: 255.0, torch.uint16: 65535.0 if is_float else 1.0}.get(inputs.dtype, 1.0)
    return ArrayBatcher(
        _scaled("mean", mean, 0.0, scale, inputs), _scaled("std", std, 1.0, scale, inputs)
    )


def _scaled(
    option: str, value: Statistic | None, default: float, scale: float, inputs: StoredArray
) -> Numbers:
    value = default if value is None else value
    numbers = value if isinstance(value, Sequence) else [value]
    channels = inputs.shape[1] if len(inputs.shape) > 1 else 1
    if len(numbers) not in (1, channels):
        raise errors.DataError(
            f"data.{option}={value}: has {len(numbers)} numbers where a sample of {inputs.name!r} "
            f"has {channels} channels; give one, or one for each"
        )
    return tuple(number * scale for number in numbers)
