"""Splits of a user's torch data sets, with their transforms and collate function."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from andiron import errors
from andiron.data import structures
from andiron.data.augment.sample_random import Draws
from andiron.data.batchers import ArrayBatcher
from andiron.data.composed import divided_samples, sample_classes
from andiron.data.composed.composed_datasets import chosen
from andiron.data.composed.torch_samples import CollateOption, collate_of, from_torch
from andiron.data.dataset import Dataset, RawBatch, is_stream
from andiron.data.splitting import fingerprint as fingerprints, splits
from andiron.data.splitting.divided_rows import Division, Option, Parts, columns_of
from andiron.plain import wings
from andiron.plain.plain_values import Named, Plain
from andiron.ranges import Count, Node, Proportion, Seed, SetName, SplitOption, Validation

Samples = Any  # SampleBySample or, of the lab, Streamed
SAMPLES_READ = 32  # of each data set for the fingerprint, evenly spaced
READ_AGAIN = 4  # of them, to see whether they repeat
log = logging.getLogger("andiron")


def torch_dataset(
    *,
    train: Node,
    valid: Node | Validation = 0.1,
    test: Node | Proportion = 0.1,
    split_seed: Seed = 0,
    split: SplitOption | None = None,
    collate: CollateOption = None,
    num_classes: Count | None = None,
    num_outputs: Count | None = None,
    class_names: Sequence[str] | None = None,
    fingerprint: str | None = None,
    valid_sets: dict[SetName, Node] | None = None,
    samples_per_epoch: Count | None = None,
) -> splits.Splits:
    """Map-style torch data sets, of pairs of an input and a target, or of mappings and the like.

    `train` may be an IterableDataset: an epoch is its next `samples_per_epoch` samples, by default
    its length, in its own order; `valid` and `test` are then data sets. The lab reads streams.

    `valid` and `test` are data sets too, or fractions of `train`, of every class if it has
    `targets`; such a part has the transforms of `train`. `valid="test"` validates on `test`.
    `split` divides the samples of `train` (see `Division`); its column is an attribute of the data
    set with a value for each sample, its method that takes an index, a column of Arrow, a
    field of each sample, or a list. In order, `train.gap` samples are left out between two parts.
    Inputs that are bytes or floats reach the network as float32, other integers as int64; batches
    of another structure as they are, but float64 as float32.
    Without `num_classes`, `class_names` and `num_outputs`, the classes are `train.classes` or the
    names of the ClassLabel of Arrow, of the column `labels` if there is one, and float targets are
    values to predict. `collate` may be `padded`. The default `fingerprint` covers the length of
    each data set and up to 32 of its samples. `valid_sets` are further validation sets by name.
    Raises: DataError naming the part that is not such a data set, or the fault of its samples.
    """
    named = {"train": train, "valid": valid, "test": test}
    datasets = {
        name: _adapted(name, dataset, collate, samples_per_epoch)
        for name, dataset in named.items()
        if not isinstance(dataset, int | float | str)
    }
    for name, dataset in datasets.items():
        sample_classes.check_alike(name, dataset.dataset, train)
    names = class_names or sample_classes.names_of(train)
    facts = _facts(datasets["train"], num_classes, num_outputs, names)
    fractions = {name: value for name, value in named.items() if name not in datasets}
    made = _divided(
        datasets, fractions, split_seed, split,
        name=type(train).__name__,
        batcher=ArrayBatcher(),
        facts=facts,
        fingerprint=fingerprint or _fingerprint(datasets),
    )  # fmt: skip

    def read_set(dataset: Any) -> tuple[Samples, str]:
        adapted = _adapted("valid_sets", dataset, collate)
        sample_classes.check_alike("valid_sets", dataset, train)
        return adapted, _fingerprint({"valid_sets": adapted})

    return splits.with_sets(made, valid_sets, read_set)


def _adapted(
    name: str, dataset: object, collate: CollateOption, size: int | None = None
) -> Samples:
    if name == "train" and isinstance(dataset, IterableDataset):
        what = "an IterableDataset as data.train"
        lab = wings.required("data.streamed", what, errors.DataError)
        try:
            return lab.Streamed(dataset, collate_of(collate), size)
        except TypeError as error:
            raise errors.DataError(
                f"data.train: {type(dataset).__name__} is an IterableDataset without a length; set "
                "data.samples_per_epoch"
            ) from error
    if name == "train" and size:
        raise errors.DataError(
            f"data.samples_per_epoch: data.{name} is no IterableDataset, and an epoch has all of "
            "its samples; leave it out"
        )
    try:
        adapted = from_torch(dataset, collate)
        number = len(adapted)
    except (errors.DataError, TypeError, NotImplementedError) as error:
        raise errors.DataError(f"data.{name}: {error}") from error
    if not number:
        raise errors.DataError(f"data.{name}: {type(dataset).__name__} is empty; give it samples")
    return adapted


def _divided(
    datasets: Mapping[str, Samples], fractions: Named, split_seed: int, split: Option,
    **described: Any,
) -> splits.Splits:  # fmt: skip
    """The parts: data sets of their own, and fractions of train; `described` are other fields."""
    whole = datasets["train"]
    if is_stream(whole):
        return _of_stream(datasets, {**fractions, "split": split}, **described)
    values = {
        name: divided_samples.values_of(dataset.dataset, column)
        for column in columns_of(split) for name, dataset in datasets.items()
    }  # fmt: skip
    division = Division(
        len(whole), split, sample_classes.of_samples(whole.dataset), values.get("train", ()),
        gap=getattr(whole.dataset, "gap", 0),
    )  # fmt: skip
    division.check_apart(values)
    fraction = {"valid": None, "test": None, **fractions}
    rows = division.parts(**fraction, split_seed=split_seed)
    divided_samples.check_windows(whole.dataset, division, rows)

    def of_rows(rows: Parts) -> splits.Splits:
        def subset(part: Any) -> Dataset:
            if not isinstance(part, Tensor):
                return part
            is_whole = torch.equal(part, torch.arange(len(whole)))
            return whole if is_whole else chosen(whole, part)

        held_out: Any = datasets.get("test", rows.test)
        valid = datasets.get("valid", held_out if rows.valid is rows.test else rows.valid)
        parts = rows.train, valid, held_out
        return splits.of_parts(subset, parts, division=division, **described)

    if "valid" in datasets:  # not of the rows that folds divide
        return of_rows(rows)
    return splits.of_rows(of_rows, rows)


def _of_stream(
    datasets: Mapping[str, Samples], options: Named, **described: Any
) -> splits.Splits:
    """The parts, each a data set of its own. Raises: DataError if one of `options` divides."""
    for name, value in options.items():
        if value not in ("test", None):
            raise errors.DataError(
                f"data.{name}={value}: no fraction can be taken from an IterableDataset; "
                "give data.valid and data.test data sets of their own, and no data.split"
            )
    test = datasets["test"]
    own = datasets["train"], datasets.get("valid", test), test
    return splits.of_parts(lambda part: part, own, **described)


def _facts(
    dataset: Samples,
    num_classes: int | None,
    num_outputs: int | None,
    class_names: Sequence[object] | None,
) -> Plain:
    batch = _samples(dataset, [0])
    name = type(dataset.dataset).__name__
    _check_structure(batch, name)
    inputs: Any = getattr(batch, "inputs", None)
    targets: Any = getattr(batch, "targets", None)
    facts: Plain = {}
    if isinstance(inputs, Tensor):
        facts["input_shape"] = list(inputs.shape[1:])
    is_known = isinstance(targets, Tensor)  # else the task knows what they are
    if num_outputs is None and num_classes is None and is_known and targets.is_floating_point():
        num_outputs = targets[0].numel()
    if num_outputs is not None:
        return {**facts, "num_outputs": num_outputs}
    if num_classes is None and class_names is None:
        if not is_known:
            return facts
        raise errors.DataError(
            f"data.train: {name} has no number of classes; set "
            "data.num_classes, or data.num_outputs for a regression"
        )
    names = [str(name) for name in class_names or ()]
    if num_classes is not None and names and len(names) != num_classes:
        raise errors.DataError(
            f"data.num_classes={num_classes}: {name} has {len(names)} class names; leave it out, "
            "or set data.class_names"
        )
    facts["num_classes"] = num_classes or len(names)
    return {**facts, "class_names": names} if names else facts


def _check_structure(batch: Any, name: str) -> None:
    """Refuses a lone tensor, and parts without a tensor; warns of inputs of bytes."""
    inputs: Any = getattr(batch, "inputs", None)
    if isinstance(inputs, Tensor) and inputs.dtype == torch.uint8:
        log.warning("data.train: the inputs of %s are bytes, and the network gets 0 to 255; to "
                    "scale them: ToDtype(torch.float32, scale=True) of torchvision", name)
    is_plain = type(batch) in (*structures.PLAIN, RawBatch)
    parts = [*batch] if is_plain else [] if isinstance(batch, Tensor) else [batch]
    if not parts or any(next(structures.leaves(part), None) is None for part in parts):
        items = f" ({', '.join(type(value).__name__ for value in parts)})" if is_plain else ""
        raise errors.DataError(
            f"data.train: a batch of {name} is {type(batch).__name__}{items}; its samples should "
            "be pairs of an input and a target, or mappings, or data.collate a function that makes "
            "tensors of a list of samples"
        )


def _samples(dataset: Samples, indices: list[int]) -> Any:
    """The batch of these samples, with the random numbers of epoch 0 and seed 0."""
    return dataset.drawn(indices, Draws(seed=0, epoch=0, indices=torch.tensor(indices)))


def _fingerprint(datasets: Mapping[str, Samples]) -> str:
    """A SHA-256 over the names and lengths of the data sets and up to SAMPLES_READ of each.

    Of a stream they are the first.
    """
    digests = []
    for name, dataset in datasets.items():
        number = min(SAMPLES_READ, len(dataset))
        last = number if is_stream(dataset) else len(dataset)
        places = torch.linspace(0, last - 1, number).round().long().tolist()
        again = places[:READ_AGAIN]
        tensors = [[*_tensors(_samples(dataset, [index]))] for index in places + again]
        if is_stream(dataset):
            dataset.restart()
        checksum, first, second = (
            fingerprints.of_tensors(*chain.from_iterable(value))
            for value in (tensors[:number], tensors[: len(again)], tensors[number:])
        )
        if first != second:
            checksum = ""  # would be another at each start
            log.warning(
                "data.%s: %s gives other samples for the same seeds, as with a generator of its "
                "own: runs do not repeat; seed it by torch for each sample: "
                "compose.set_random_seed(int(torch.randint(2**31, ()))) for albumentations, "
                "transform.set_random_state(...) for monai", name, type(dataset.dataset).__name__,
            )  # fmt: skip
        digests.append(f"{name} {len(dataset)} {checksum}\n")
    return fingerprints.of_texts(digests)


def _tensors(value: object) -> Iterator[Tensor]:
    """Every tensor, also inside objects that move."""
    for leaf in structures.leaves(value):
        yield from [leaf] if isinstance(leaf, Tensor) else _tensors(getattr(leaf, "__dict__", {}))
