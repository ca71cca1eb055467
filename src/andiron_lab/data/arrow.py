"""Arrow files of any size as a data set: folders of datasets, Feather and IPC files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor

from andiron import errors
from andiron.data.batchers import ArrayBatcher, Numbers as Statistics
from andiron.data.dataset import Batcher, Classes, Dataset
from andiron.data.on_disk.image_folder import BATCHERS
from andiron.data.on_disk.safetensors_arrays import MOST_CLASSES
from andiron.data.splitting import splits, standardisation
from andiron.data.splitting.divided_rows import Division, Parts, columns_of
from andiron.ranges import (
    Count, Number, Positive, Proportion, Resizing, ResizingOption, Seed, SetFiles, SplitOption,
    Validation,
)  # fmt: skip
from andiron.recording import keep_arguments
from andiron_lab.data import arrow_files, arrow_folder, large_file
from andiron_lab.data.arrow_columns import Lengthy
from andiron_lab.data.arrow_dataset import BLOCKS_OF_WINDOW, ArrowDataset, OrderName, Sample
from andiron_lab.data.arrow_files import ArrowRows

SIDE = 224  # of pictures, as ImageNet's
WHITE = 255.0  # of bytes
Statistic = float | Sequence[float]


@keep_arguments
def arrow(
    *,
    path: str,
    inputs: Sequence[str] | str,
    targets: str | None,
    valid: Validation = 0.1,
    test: Proportion = 0.1,
    split_seed: Seed = 0,
    split: SplitOption | None = None,
    order: OrderName = "full",
    collate: Literal["padded"] | None = None,
    size: Count | None = None,
    channels: Literal[1, 3] = 3,
    resizing: ResizingOption | None = None,
    mean: Number | Sequence[Number] | None = None,
    std: Positive | Sequence[Positive] | None = None,
    valid_sets: SetFiles = None,
) -> splits.Splits:
    """Rows of Arrow files, read by place: memory does not grow with the files.

    `path` is a file, or a folder of them, such as `datasets.save_to_disk` writes; folders train,
    valid and test in it are those parts. One column of `inputs` and its `targets` make a pair;
    several inputs, or null as `targets`, make a mapping by column. Whole numbers as targets are
    classes, named by a ClassLabel of datasets; floats are numbers to predict. Columns of datasets'
    Image, and with `size` columns of bytes, are decoded as `image_folder` decodes pictures. Lists
    of several lengths need `collate="padded"`. Bytes (uint8) are scaled to [0, 1]; `mean` and `std`
    are one number, or one for each entry of a sample's first dimension.
    With the order `full` any sample may follow any other; with `blocks` rows that are near in the
    file stay near, which is faster: see `BlockOrder`. `split` divides the rows (see `Division`);
    its column is one of the files. The fingerprint covers the files; beyond 1 GiB, spans of them.
    Raises: DataError naming the file and the column that cannot be read by place.
    """
    columns = (inputs,) if isinstance(inputs, str) else tuple(inputs)
    names = [*Sample(columns, targets).names, *map(str, columns_of(split))]

    def read(files: Sequence[Path]) -> ArrowDataset:
        table = arrow_files.opened(files, [*dict.fromkeys(names)])
        pictures = tuple(name for name in columns if _is_picture(table, name, size))
        shape = (channels, size or SIDE, size or SIDE)
        sample = Sample(
            columns, targets, collate is not None, pictures, shape, cast(Resizing, resizing or {})
        )
        _check_lists(table, sample)
        return ArrowDataset(table, sample, range(len(table)), order)

    def read_set(name: str) -> tuple[Dataset, str]:
        further = arrow_folder.files_in(Path(name).absolute())
        dataset = read(further)
        _described(dataset, range(len(dataset)), of_targets)
        return dataset, large_file.checksum_of(further)[0]

    parts = arrow_folder.parts_in(Path(path).absolute())
    files = [file for own in parts.values() for file in own]
    whole = read(files)
    rows = _rows_of(whole.table, parts)
    of_targets, classes = _described(whole, rows["train"])
    division = _division(whole, rows, split, classes)
    checksum, covers = large_file.checksum_of(files)
    facts = of_targets | _recorded(whole) | ({"fingerprint_covers": covers} if covers else {})
    made = _divided(
        whole, rows, division, (valid, test, split_seed), facts, name=Path(path).name,
        batcher=_batcher(whole, mean, std), fingerprint=checksum,
    )  # fmt: skip
    return splits.with_sets(made, valid_sets, read_set)


def _rows_of(table: ArrowRows, parts: arrow_folder.Parts) -> dict[str, range]:
    """The rows of each part."""
    rows, begin = dict[str, range](), 0
    for part, files in parts.items():
        first, last = table.first_row(begin), table.first_row(begin + len(files))
        if first == last:
            raise errors.DataError(f"{files[0]}: has no row; name other files")
        rows[part], begin = range(first, last), begin + len(files)
    return rows


def _division(
    whole: ArrowDataset, rows: Mapping[str, range], split: Any, classes: Classes | None
) -> Division:
    """The division of all rows; no group is in two folders of parts."""
    values = [
        value for name in columns_of(split) for value in _listed(whole.table.read_whole(str(name)))
    ]
    division = Division(len(whole), split, classes, values, row_name=whole.sample_name)
    if values:
        division.check_apart(
            {part: values[own.start : own.stop] for part, own in rows.items()}
        )
    return division


def _divided(
    whole: ArrowDataset, places: Mapping[str, range], division: Division, sizes: tuple[Any, ...],
    facts: Mapping[str, Any], **described: Any,
) -> splits.Splits:  # fmt: skip
    """The parts: files of their own, or fractions of train."""
    valid, test, split_seed = sizes
    own = {part: torch.arange(rows.start, rows.stop) for part, rows in places.items()}
    parts = division.parts(valid=valid, test=test, split_seed=split_seed, own=own)

    def of_rows(rows: Parts) -> splits.Splits:
        learned = {**facts, **_unit(whole, rows.train)}
        return splits.of_parts(
            whole.subset, rows, facts=learned, division=division, **described
        )

    if "valid" in own and valid != "test":  # no index of a row is held
        return of_rows(parts)
    return splits.of_rows(of_rows, parts)


def _described(
    dataset: ArrowDataset, rows: range, training: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], Classes | None]:
    """The facts of the targets, and the class of each sample; those at `rows` train.

    Raises: DataError for targets that are no classes or numbers, or other ones than in `training`.
    """
    name, table = dataset.sample.targets, dataset.table
    if name is None:
        return {}, None
    column, where = table.columns[name], table.files[0].path
    if isinstance(column, Lengthy):
        noun = f"lists of {column.kind}" if column.is_list else column.kind
        raise errors.DataError(
            f"{where}: data.targets={name} has {noun} where a target is a number: make texts "
            "classes with datasets' class_encode_column; name lists in data.inputs, with "
            "data.targets=null"
        )
    targets: Any = dataset.read_targets()
    facts: dict[str, Any] = {"num_outputs": targets[0].numel()}
    if not targets.is_floating_point():
        num_classes = len(column.classes or ()) or (training or {}).get("num_classes")
        largest = num_classes - 1 if num_classes else int(targets[rows.start : rows.stop].max())
        _check_classes(targets, largest, f"{where}: {name!r}")
        facts = {"num_classes": largest + 1}
        facts |= {"class_names": column.classes} if column.classes else {}
    if facts != (training or facts):
        raise errors.DataError(
            f"{where}: its targets have {facts}, where the training data has {training}; give both "
            "the same targets, and number the classes of both alike"
        )
    is_class = "num_classes" in facts and targets.dim() == 1
    return facts, targets.long() if is_class else None


def _check_classes(targets: Tensor, largest: int, where: str) -> None:
    first, last = int(targets.min()), int(targets.max())
    if first < 0 or last > largest or not 1 <= largest < MOST_CLASSES:
        raise errors.DataError(
            f"{where} has whole numbers from {first} to {last}, which are no classes from 0 to "
            f"{max(largest, 1)}: store numbers to predict as floats, and renumber classes from 0 on"
        )


def _unit(whole: ArrowDataset, rows: Tensor) -> dict[str, Any]:
    """Mean and standard deviation of the numbers to predict, in the training samples."""
    numbers = whole.read_targets() if whole.sample.is_pair else None
    if numbers is None or not numbers.is_floating_point() or numbers.dim() != 2:
        return {}
    mean, std = standardisation.fit(numbers[rows])
    return {"target_mean": list(mean), "target_std": list(std)}


def _is_picture(table: ArrowRows, name: str, size: int | None) -> bool:
    column = table.columns[name]
    if not isinstance(column, Lengthy) or column.kind != "bytes":
        return False
    return column.is_picture or size is not None


def _check_lists(table: ArrowRows, sample: Sample) -> None:
    """Refuses lists of several lengths, unless they are padded."""
    for name in () if sample.is_padded else sample.names:
        column = table.columns[name]
        if isinstance(column, Lengthy) and column.is_list:
            raise errors.DataError(
                f"{table.files[0].path}: the lists of {name!r} have several lengths; set "
                "data.collate=padded, or cut lists to one length"
            )


def _listed(values: Any) -> list[Any]:
    return values.tolist() if isinstance(values, Tensor) else values


def _recorded(dataset: ArrowDataset) -> dict[str, Any]:
    """The shape of one sample, how pictures are resized, and what decides the order of epochs."""
    sample, facts = dataset.sample, dict[str, Any]()
    first = dataset.__getitems__([0])
    if sample.is_pair and not sample.is_padded and isinstance(first.inputs, Tensor):
        facts["input_shape"] = [*first.inputs.shape[1:]]
    if sample.pictures and sample.resizing:
        facts["resizing"] = sample.resizing
    facts["order_of_samples"] = {"name": dataset.order}
    if dataset.order == "blocks":
        sizes = {"rows_of_block": dataset.block, "blocks_of_window": BLOCKS_OF_WINDOW}
        facts["order_of_samples"] |= sizes
    return facts


def _batcher(dataset: ArrowDataset, mean: Statistic | None, std: Statistic | None) -> Batcher:
    sample, column = dataset.sample, dataset.inputs
    dtype = column and column.dtype
    is_scaled = dtype is not None and (dtype.is_floating_point or dtype == torch.uint8)
    if (mean is not None or std is not None) and not is_scaled:
        raise errors.DataError(
            "data.mean and data.std are for one column of floats or bytes (uint8), and "
            f"data.inputs is {', '.join(sample.inputs)}; leave them null"
        )
    if sample.pictures and sample.is_pair:
        return BATCHERS[sample.picture[0]]
    white = WHITE if dtype == torch.uint8 else 1.0
    return ArrayBatcher(_scaled(mean, 0.0, white), _scaled(std, 1.0, white))


def _scaled(value: Statistic | None, default: float, white: float) -> Statistics:
    given = default if value is None else value
    return tuple(number * white for number in (given if isinstance(given, Sequence) else [given]))
