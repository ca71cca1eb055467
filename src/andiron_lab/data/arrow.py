"""Arrow files of any size as a data set: folders of datasets, Feather and IPC files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
    Count, Number, Positive, Proportion, Resizing, ResizingOption, Seed, SetName, SplitOption,
    Validation,
)  # fmt: skip
from andiron.recording import keep_arguments
from andiron_lab.data import arrow_files, arrow_folder, large_file
from andiron_lab.data.arrow_columns import Lengthy
from andiron_lab.data.arrow_dataset import (
    BLOCKS_OF_WINDOW, OF_ONE_LENGTH, ArrowDataset, OrderName, Sample,
)  # fmt: skip
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
    valid_sets: dict[SetName, str] | None = None,
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
    parts = arrow_folder.parts_in(Path(path).absolute())
    given = cast(Resizing, resizing or {})
    sample = Sample(columns, targets, len(columns) == 1 and targets is not None, bool(collate))

    def read(files: Sequence[Path], extra: Sequence[str] = ()) -> ArrowDataset:
        names = [*dict.fromkeys((*sample.names, *extra))]
        table = arrow_files.opened(files, names)
        _check_lists(table, sample)
        pictures = tuple(name for name in columns if _is_picture(table, name, size))
        shape = (channels, size or SIDE, size or SIDE) if pictures else ()
        shown = replace(sample, pictures=pictures, picture=shape, resizing=given)
        return ArrowDataset(_of_any_length(table) if collate else table, shown, order)

    def read_set(name: str) -> tuple[Dataset, str]:
        further = arrow_folder.files_in(Path(name).absolute())
        dataset = read(further)
        target.check_alike(dataset)
        return dataset, large_file.checksum_of(further)[0]

    dividing = [*map(str, columns_of(split))]
    own = {part: read(files, dividing) for part, files in parts.items()}
    target = _Target.of(own["train"])
    for part in own.values():
        target.check_alike(part)
    made = _divided(own, target, valid, test, split_seed, split, dict(
        name=Path(path).name,
        batcher=_batcher(own["train"], mean, std),
        files=[file for files in parts.values() for file in files],
    ))  # fmt: skip
    return splits.with_sets(made, valid_sets, read_set)


def _divided(
    own: Mapping[str, ArrowDataset], target: "_Target", valid: Validation, test: float,
    split_seed: int, split: Any, described: dict[str, Any],
) -> splits.Splits:  # fmt: skip
    """The parts: files of their own, or fractions of train."""
    train, has_own_valid = own["train"], "valid" in own and valid != "test"
    values = {
        part: _listed(dataset.table.read_whole(str(column)))
        for column in columns_of(split) for part, dataset in own.items()
    }  # fmt: skip
    division = Division(
        len(train), split, target.classes, values.get("train", ()), row_name=train.sample_name
    )
    division.check_apart(values)
    rows = division.parts(
        valid=None if has_own_valid else valid,
        test=None if "test" in own else test,
        split_seed=split_seed,
    )
    checksum, covers = large_file.checksum_of(described.pop("files"))
    facts = {**_shape(train), **target.facts, **_order(train)}
    facts |= {"fingerprint_covers": covers} if covers else {}

    def of_rows(rows: Parts) -> splits.Splits:
        training = train.subset(rows.train)
        held_out = own.get("test") or train.subset(rows.test)
        validation = held_out if rows.valid is rows.test else train.subset(rows.valid)
        chosen = training, own["valid"] if has_own_valid else validation, held_out
        return splits.of_parts(
            lambda part: part, chosen, fingerprint=checksum, division=division,
            facts={**facts, **target.unit(training)}, **described,
        )  # fmt: skip

    return of_rows(rows) if has_own_valid else splits.of_rows(of_rows, rows)


@dataclass(frozen=True)
class _Target:
    """The checked targets of the training files: their facts, and the class of each row."""

    facts: Mapping[str, Any]
    classes: Classes | None
    names: Sequence[str] | None
    is_number: bool = False

    @classmethod
    def of(cls, dataset: ArrowDataset) -> "_Target":
        """The targets of `dataset`."""
        name, table = dataset.sample.targets, dataset.table
        if name is None:
            return cls({}, None, None)
        column, where = table.columns[name], table.files[0].path
        if isinstance(column, Lengthy):
            raise errors.DataError(
                f"{where}: data.targets={name} has {_noun(column)} where a target is a number: "
                "make texts classes with datasets' class_encode_column; name lists in data.inputs, "
                "with data.targets=null"
            )
        targets: Any = dataset.read_targets()
        if targets.is_floating_point():
            _check_finite(dataset, targets, name)
            return cls({"num_outputs": targets[0].numel()}, None, None, True)
        smallest, largest = int(targets.min()), int(targets.max())
        names = table.class_names(name)
        most = len(names) - 1 if names else MOST_CLASSES - 1
        if smallest < 0 or not 1 <= max(largest, most if names else 0) <= most < MOST_CLASSES:
            raise errors.DataError(
                f"{where}: {name!r} has whole numbers from {smallest} to {largest}, which are no "
                f"classes from 0 to {most}: store numbers to predict as floats, and renumber "
                "classes from 0 on"
            )
        facts: dict[str, Any] = {"num_classes": most + 1 if names else largest + 1}
        facts |= {"class_names": names} if names else {}
        return cls(facts, targets.long() if targets.dim() == 1 else None, names)

    def check_alike(self, dataset: ArrowDataset) -> None:
        """Refuses targets of another kind, and classes that the training files do not have."""
        other = _Target.of(dataset)
        where = dataset.table.files[0].path
        if self.names != other.names:
            raise errors.DataError(
                f"{where}: its classes are {other.names}, where the training data has "
                f"{self.names}; number the classes of both alike"
            )
        ours, theirs = (side.facts.get("num_classes", 0) for side in (self, other))
        outputs = (side.facts.get("num_outputs") for side in (self, other))
        if theirs > ours or len({*outputs}) > 1:
            raise errors.DataError(
                f"{where}: its targets have {dict(other.facts)}, where the training data has "
                f"{dict(self.facts)}; give both the same targets"
            )

    def unit(self, training: ArrowDataset) -> dict[str, Any]:
        """Mean and standard deviation of the numbers to predict, in the training samples."""
        if not self.is_number or not training.sample.is_pair:
            return {}
        numbers: Any = training.read_targets()
        if numbers.dim() != 2:
            return {}
        mean, std = standardisation.fit(numbers)
        return {"target_mean": list(mean), "target_std": list(std)}


def _check_finite(dataset: ArrowDataset, targets: Tensor, name: str) -> None:
    is_finite = targets.isfinite().view(len(targets), -1).all(1)
    if not is_finite.all():
        row = int((~is_finite).nonzero()[0])
        raise errors.DataError(
            f"{dataset.sample_name(row)}: {name!r} has a NaN or an infinity; correct it, or leave "
            "the row out"
        )


def _is_picture(table: ArrowRows, name: str, size: int | None) -> bool:
    column = table.columns[name]
    is_bytes = isinstance(column, Lengthy) and column.kind == "bytes"
    return is_bytes and (table.is_picture(name) or size is not None)


def _check_lists(table: ArrowRows, sample: Sample) -> None:
    """Refuses lists of several lengths, unless they are padded."""
    for name in () if sample.is_padded else sample.names:
        column = table.columns[name]
        if isinstance(column, Lengthy) and column.dtype and column.length is None:
            raise errors.DataError(
                f"{table.files[0].path}: the lists of {name!r} have several lengths; "
                f"{OF_ONE_LENGTH}"
            )


def _of_any_length(table: ArrowRows) -> ArrowRows:
    """The rows with lists of the same length read as any other lists."""
    return replace(table, columns={
        name: replace(column, length=None) if isinstance(column, Lengthy) else column
        for name, column in table.columns.items()
    })  # fmt: skip


def _noun(column: Lengthy) -> str:
    return str(column.kind) if column.dtype is None else f"lists of {column.dtype}"


def _listed(values: Any) -> list[Any]:
    return values.tolist() if isinstance(values, Tensor) else values


def _shape(dataset: ArrowDataset) -> dict[str, Any]:
    """The shape of one sample, and how pictures are resized."""
    sample = dataset.sample
    resized = {"resizing": sample.resizing} if sample.pictures and sample.resizing else {}
    first = dataset.__getitems__([0])
    if not sample.is_pair or sample.is_padded or not isinstance(first.inputs, Tensor):
        return resized
    return {"input_shape": [*first.inputs.shape[1:]], **resized}


def _order(dataset: ArrowDataset) -> dict[str, Any]:
    """The order of epochs: its name, and the numbers that decide it."""
    if dataset.order == "full":
        return {"order_of_samples": {"name": "full"}}
    sizes = {"rows_of_block": dataset.block, "blocks_of_window": BLOCKS_OF_WINDOW}
    return {"order_of_samples": {"name": dataset.order, **sizes}}


def _batcher(dataset: ArrowDataset, mean: Statistic | None, std: Statistic | None) -> Batcher:
    sample, column = dataset.sample, dataset.inputs
    dtype = getattr(column, "dtype", None)
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
