"""Three disjoint parts of a data set that comes in one: trained on, chosen by, kept aside."""

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from andiron import errors, randomness
from andiron.data import splits
from andiron.ranges import Validation

TEST_SEED = 0  # fixed: whatever the split seed, the same samples are kept aside


class Parts(NamedTuple):
    """The indices of each part, ascending."""

    train: Int[Tensor, " train"]
    valid: Int[Tensor, " valid"]
    test: Int[Tensor, " test"]


def parts(
    size: int,
    *,
    valid: Validation,
    test: float,
    split_seed: int,
    classes: Int[Tensor, " size"] | None = None,
) -> Parts:
    """A random fraction `test` of all samples, a random fraction `valid` of the rest, and what is left.

    With `classes` of every class, without of all of them together. `valid="test"` validates on the test samples.
    Raises: DataError if one of the parts would be empty.
    """
    rest, kept_aside = _split(size, classes, test, TEST_SEED)
    if not len(rest) or not len(kept_aside):
        raise errors.DataError(
            f"data.test={test}: of {size} samples, {len(rest)} would be left and {len(kept_aside)} kept aside as the test "
            "set; choose a fraction that leaves both some"
        )
    if valid == "test":
        return Parts(rest, kept_aside, kept_aside)
    train, held_out = _split(
        len(rest), None if classes is None else classes[rest], float(valid), split_seed
    )
    if not len(train) or not len(held_out):
        raise errors.DataError(
            f"data.valid={valid}: of {len(rest)} training samples, {len(train)} would train and {len(held_out)} validate; "
            "choose a fraction that leaves both some"
        )
    return Parts(rest[train], rest[held_out], kept_aside)


def random_split(
    size: int, fraction: float, seed: int
) -> tuple[Int[Tensor, " rest"], Int[Tensor, " held"]]:
    """Indices of the rest and of a random `fraction`, both in ascending order."""
    shuffled = torch.randperm(size, generator=randomness.stream(seed, "split"))
    number = round(size * fraction)
    return shuffled[number:].sort().values, shuffled[:number].sort().values


def _split(size: int, classes: Tensor | None, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    return (
        random_split(size, fraction, seed)
        if classes is None
        else splits.stratified_split(classes, fraction, seed)
    )
