"""The training, validation and test part of a data set, with its facts.

    >>> from andiron.data import digits
    >>> splits = digits(valid=0.1, split_seed=0)
    >>> len(splits.train), len(splits.valid), len(splits.test)
    (1295, 143, 359)
    >>> splits.input_shape, splits.num_classes
    ((1, 8, 8), 10)
"""

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from andiron import errors
from andiron.data.batchers import ImageBatcher
from andiron.data.dataset import ArrayDataset, Batcher, Dataset, all_targets
from andiron.data.splitting import fingerprint
from andiron.data.splitting.divided_rows import Division, Parts
from andiron.plain import wings
from andiron.plain.plain_values import Named, Plain
from andiron.ranges import SET_NAMES, Validation, is_set_name

log = logging.getLogger("andiron")


@dataclass(frozen=True)
class Splits:
    """A data set: its splits, batcher and facts. `test` is measured once, after training.

    `more` are further validation sets, by name; `fingerprint` does not cover them.

    `facts` are plain values that networks, tasks and metrics receive by parameter name; the run
    folder records them in data.json: `input_shape` (of one sample), `num_classes` or
    `num_outputs`, `class_names`, `vocabulary_size`, ... If facts or batcher are learned from the
    training samples, `refit` learns them from others; see `of_rows`.
    """

    name: str
    train: Dataset
    valid: Dataset
    test: Dataset
    batcher: Batcher
    facts: Named
    fingerprint: str  # SHA-256 over all samples, in their stored order
    validates_on_test: bool = False
    evaluation_batch_size: int = 256  # at least: on a CPU 1,024 images take three times as long
    more: Mapping[str, Dataset] = field(default_factory=dict)  # further validation sets by name
    more_fingerprints: Mapping[str, str] = field(default_factory=dict)
    refit: "Refit | None" = None
    division: Division | None = field(default=None, compare=False)  # of its rows; folds follow it

    def __post_init__(self) -> None:
        for part in self.more:
            if not is_set_name(part):
                raise errors.DataError(
                    f"{self.name}: validation set {part!r}: should be {SET_NAMES}; rename it"
                )
        for part, dataset in self.by_name.items():
            if not isinstance(dataset, Dataset):
                raise errors.DataError(
                    f"{self.name}.{part}: {type(dataset).__name__} has no __len__ and "
                    "__getitems__(indices) that returns a RawBatch; for a torch data set with "
                    "__getitem__(index), pass andiron.data.from_torch(dataset), or make all parts "
                    "with andiron.data.torch_dataset(train=..., valid=..., test=...)"
                )

    @property
    def by_name(self) -> dict[str, Dataset]:
        """All data sets: train, valid, test, and further validation sets."""
        return {"train": self.train, "valid": self.valid, "test": self.test, **self.more}

    def mapped(self, change: Callable[[Dataset], Dataset]) -> "Splits":
        """The splits with each data set replaced by `change` of it."""

        def mapped(splits: Splits) -> Splits:
            return dataclasses.replace(
                splits,
                train=change(splits.train),
                valid=change(splits.valid),
                test=change(splits.test),
                more={name: change(part) for name, part in splits.more.items()},
            )

        return self.then(mapped)

    def then(self, change: Callable[["Splits"], "Splits"]) -> "Splits":
        """`change` of these splits, now and whenever they are made of other rows."""
        changed, refit = change(self), self.own_refit
        if refit is None:
            return changed
        return of_rows(lambda rows: refit.make(rows).then(change), refit.rows, changed)

    @property
    def own_refit(self) -> "Refit | None":
        """The `refit` that holds: no part, fact or batcher was replaced since."""
        names = "train", "valid", "test", "facts", "batcher"
        made = None if self.refit is None else self.refit.made
        holds = all(getattr(self, name) is getattr(made, name, None) for name in names)
        return self.refit if holds else None

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.facts["input_shape"])

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return int(self.facts["num_classes"])

    @property
    def offered(self) -> Plain:
        """The facts, and derived ones: normalisation, number and sizes of classes."""
        return offered(self.facts, self.batcher, self.class_counts)

    @cached_property
    def class_counts(self) -> list[int] | None:
        """The number of training samples of each class; see `counts_of`."""
        return self.counts_of("train")

    def counts_of(self, part: str) -> list[int] | None:
        """The number of samples of each class in a part.

        None if its targets are unknown without the inputs, or are not classes.
        """
        targets = all_targets(self.by_name[part]) if "num_classes" in self.facts else None
        if targets is None or targets.dim() != 1 or targets.is_floating_point():
            return None
        classes = targets[targets >= 0].long()
        return torch.bincount(classes, minlength=self.num_classes).tolist()


@dataclass(frozen=True)
class Refit:
    """How `made` is made again of other rows: facts and batcher are learned from the training rows.

    `rows` are the rows of `made`. See `Splits.own_refit`.
    """

    rows: Parts
    make: Callable[[Parts], Splits]
    made: Splits


def of_rows(
    make: Callable[[Parts], Splits], rows: Parts, made: Splits | None = None
) -> Splits:
    """`make(rows)`, or `made` of it; `kfold`, `balanced` and `partial` call it with other rows."""
    made = made or make(rows)
    return dataclasses.replace(made, refit=Refit(rows, make, made))


def offered(
    facts: Named, batcher: Batcher, class_counts: list[int] | None
) -> Plain:
    """The values that networks, tasks and metrics receive by parameter name."""
    derived: Plain = {}
    if isinstance(batcher, ImageBatcher):
        derived |= {"input_mean": batcher.mean, "input_std": batcher.std}
    if "num_classes" in facts:
        derived |= {"num_outputs": int(facts["num_classes"]), "class_counts": class_counts}
    if len(facts.get("target_columns", ())) > 1:  # one for each label
        derived["class_names"] = facts["target_columns"]
    lab = "tokenizer_sha256" in facts and wings.optional("andiron_lab.data.tokenizer_texts")
    if lab:
        derived["vocabulary"] = lab.of_record(facts)
    return {**derived, **facts}


def with_sets(
    splits: Splits, values: Named | None, read: Callable[[Any], tuple[Dataset, str]]
) -> Splits:
    """`splits` with further validation sets: `read` gives the data and fingerprint of a value.

    A kind of data offers them by an argument `valid_sets` and this call at the end.
    """
    more, checksums = dict[str, Dataset](), dict[str, str]()
    for name, value in (values or {}).items():
        more[name], checksums[name] = read(value)
        if checksums[name] == splits.fingerprint:
            log.warning("data.valid_sets: %s is the training data too (%s)", name, value)
    return splits.then(
        lambda made: dataclasses.replace(made, more=more, more_fingerprints=checksums)
    )


def of_parts(subset: Callable[[Any], Dataset], parts: Sequence[object], **described: Any) -> Splits:
    """`subset` of the training, validation and test part; `described` are the other fields.

    The test part may also be the validation part.
    """
    train, valid, test = parts
    held_out = subset(test)
    return Splits(
        train=subset(train),
        valid=held_out if valid is test else subset(valid),
        test=held_out,
        validates_on_test=valid is test,
        **described,
    )


def of_training_and_test(
    training: ArrayDataset,
    test: ArrayDataset,
    *,
    valid: Validation,
    split_seed: int,
    **described: Any,
) -> Splits:
    """A published training and test set of classes; `described` are the other fields.

    A random fraction `valid` of every class of the training set validates, or `test` does.
    Raises: DataError if the training or the validation part would be empty.
    """
    parts = [training, test, test]
    if valid != "test":
        division = Division(len(training), classes=training.targets)
        rows = division.parts(valid=valid, test=None, split_seed=split_seed)
        parts[:2] = map(training.subset, rows[:2])
    arrays = training.inputs, training.targets, test.inputs, test.targets
    checksum = fingerprint.of_tensors(*arrays)
    return of_parts(lambda part: part, parts, fingerprint=checksum, **described)
