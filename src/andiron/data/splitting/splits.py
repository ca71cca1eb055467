"""The training, validation and test parts of a data set, and its division into them.

    >>> from andiron.data import digits
    >>> splits = digits(valid=0.1, split_seed=0)
    >>> len(splits.train), len(splits.valid), len(splits.test)
    (1295, 143, 359)
    >>> splits.input_shape, splits.num_classes
    ((1, 8, 8), 10)
"""

import dataclasses
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from andiron import errors, randomness
from andiron.data.batchers import ImageBatcher
from andiron.data.dataset import ArrayDataset, Batcher, Classes, Dataset, all_targets
from andiron.data.splitting import fingerprint
from andiron.ranges import SET_NAMES, Validation, is_set_name

TOLERANCE = 1e-3  # of the size of a part, as the 5,999 of MNIST's 60,000 images
log = logging.getLogger("andiron")
TEST_SEED = 0  # fixed: the held-out samples are the same for every split seed


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
    facts: Mapping[str, Any]
    fingerprint: str  # SHA-256 over all samples, in their stored order
    validates_on_test: bool = False
    evaluation_batch_size: int = 256  # at least: on a CPU 1,024 images take three times as long
    more: Mapping[str, Dataset] = field(default_factory=dict)  # further validation sets by name
    more_fingerprints: Mapping[str, str] = field(default_factory=dict)
    refit: "Refit | None" = None

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
            more = {name: change(part) for name, part in splits.by_name.items()}
            parts: Any = {name: more.pop(name) for name in ("train", "valid", "test")}
            return dataclasses.replace(splits, more=more, **parts)

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
    def offered(self) -> dict[str, Any]:
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

    rows: "Parts"
    make: Callable[["Parts"], Splits]
    made: Splits


def of_rows(
    make: Callable[["Parts"], Splits], rows: "Parts", made: Splits | None = None
) -> Splits:
    """`make(rows)`, or `made` of it; `kfold`, `balanced` and `partial` call it with other rows."""
    made = made or make(rows)
    return dataclasses.replace(made, refit=Refit(rows, make, made))


def offered(
    facts: Mapping[str, Any], batcher: Batcher, class_counts: list[int] | None
) -> dict[str, Any]:
    """The values that networks, tasks and metrics receive by parameter name."""
    derived: dict[str, Any] = {}
    if isinstance(batcher, ImageBatcher):
        derived |= {"input_mean": batcher.mean, "input_std": batcher.std}
    if "num_classes" in facts:
        derived |= {"num_outputs": int(facts["num_classes"]), "class_counts": class_counts}
    return {**derived, **facts}


def with_sets(
    splits: Splits, values: Mapping[str, Any] | None, read: Callable[[Any], tuple[Dataset, str]]
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


class Parts(NamedTuple):
    """The indices of each part, ascending."""

    train: Tensor
    valid: Tensor
    test: Tensor


def parts(
    size: int,
    *,
    valid: Validation,
    test: float | None,
    split_seed: int,
    classes: Classes | None = None,
) -> Parts:
    """A random fraction `test` of all samples, a random fraction `valid` of the rest, and the rest.

    With `classes`, the fractions are of every class. `valid="test"` validates on the test samples.
    Raises: DataError if one of the parts would be empty, but for `test=None`.
    """
    if classes is None:
        classes = torch.zeros(size, dtype=torch.long)
    rest, held_out = torch.arange(size), torch.arange(0)
    if test is not None:
        rest, held_out = divided(rest, "test", test, TEST_SEED, classes)
    if valid == "test":
        return Parts(rest, held_out, held_out)
    return Parts(*divided(rest, "valid", float(valid), split_seed, classes), held_out)


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
        indices = torch.arange(len(training))
        split = divided(indices, "valid", float(valid), split_seed, training.targets)
        parts[:2] = map(training.subset, split)
    arrays = training.inputs, training.targets, test.inputs, test.targets
    checksum = fingerprint.of_tensors(*arrays)
    return of_parts(lambda part: part, parts, fingerprint=checksum, **described)


def divided(
    indices: Tensor, option: str, fraction: float, seed: int, classes: Classes, remedy: str = ""
) -> tuple[Tensor, Tensor]:
    """The rest of `indices`, and a random `fraction` of them; of each of the `classes` of all.

    Raises: DataError naming the `option` if one of the two would be empty.
    """
    rest, held_out = stratified_split(classes[indices], fraction, seed)
    if not len(rest) or not len(held_out):
        raise errors.DataError(
            f"data.{option}={fraction}: divides {len(indices)} samples into {len(rest)} and "
            f"{len(held_out)}; choose a fraction that leaves samples on both sides{remedy}"
        )
    return indices[rest], indices[held_out]


def stratified_split(
    targets: Classes, fraction: float, seed: int, *, of_each: bool = True
) -> tuple[Tensor, Tensor]:
    """The indices of the rest and of a random `fraction` of every class, both ascending.

    The share n * fraction of each class is rounded, unless the sum would be off by a sample, or one
    in a thousand: sample k of the n of a class, in random order, is held out before those with a
    larger (k + 1/2) / n. A smaller fraction lies within a larger one. Where it can be, `of_each`
    class of two or more a sample is on both sides.
    """
    shuffled = torch.randperm(len(targets), generator=randomness.stream(seed, "split"))
    sizes = torch.bincount(targets, minlength=1)
    exact = round(len(targets) * fraction, 6)  # floor and ceil of a product that was rounded
    rounded = int((sizes.double() * fraction).round().sum())
    slack = int(exact * TOLERANCE)
    number = min(max(rounded, math.floor(exact) - slack), math.ceil(exact) + slack)
    if len(sizes) > 1:
        order = targets[shuffled].sort(stable=True).indices  # by class
        begins = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
        place, size = torch.arange(len(targets)) - begins, sizes.repeat_interleave(sizes)
        share = (place + 0.5) / size.double()
        if of_each and int((sizes > 1).sum()) <= number <= len(targets) - int((sizes > 0).sum()):
            share[place == 0], share[place == size - 1] = 0, 1
        # of equal shares the odd places, as `round` takes them; then at random
        places, shares = torch.empty_like(place), torch.empty_like(share)
        places[order], shares[order] = place, share
        by_parity = (places % 2).sort(descending=True, stable=True).indices
        shuffled = shuffled[by_parity[shares[by_parity].sort(stable=True).indices]]
    is_held = torch.zeros(len(targets), dtype=torch.bool)
    is_held[shuffled[:number]] = True
    return (~is_held).nonzero().flatten(), is_held.nonzero().flatten()
