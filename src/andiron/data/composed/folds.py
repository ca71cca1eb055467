"""Cross-validation: the samples in folds, each of which validates once."""

import dataclasses
from typing import Annotated

import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from andiron import randomness
from andiron.data import class_targets
from andiron.data.arrays import ArrayDataset
from andiron.data.splits import Splits
from andiron.data.composed.composed_datasets import Concatenated, Partial
from andiron.ranges import Index, Node, Seed


def stratified_folds(targets: Int[Tensor, " size"], number: int, *, seed: int) -> list[Tensor]:
    """Indices of `number` folds, each in ascending order; every sample is in one.

    Sizes differ by one at most, and so do the samples that two folds have of a class: shuffled, sorted by class and
    dealt out in turn.
    Raises: ValueError if a fold would be empty, or there is but one.
    """
    if not 2 <= number <= len(targets):
        raise ValueError(
            f"num_folds={number}: should be from 2 to {len(targets)}, the samples there are; 5 and 10 are usual"
        )
    shuffled = torch.randperm(len(targets), generator=randomness.stream(seed, "folds"))
    by_class = shuffled[targets.cpu()[shuffled].sort(stable=True).indices]
    return [by_class[first::number].sort().values for first in range(number)]


def kfold(
    data: Node, *, fold: Index, num_folds: Annotated[int, Field(ge=2)], split_seed: Seed
) -> Splits:
    """The data with its training and validation samples divided anew: fold `fold`, counted from 0, validates.

    Where the targets are classes each fold has them in proportion. Test samples, facts and batcher stay as they are. Where
    the test samples were to validate as well, the training samples alone are divided. The folds are a function of `data`
    and `split_seed`: the runs of one cross-validation differ in `fold` alone.
    Raises: ValueError for a fold that there is not.
    """
    if not 0 <= fold < num_folds:
        raise ValueError(
            f"fold={fold}: should be from 0 to {num_folds - 1}; there are num_folds={num_folds}"
        )
    parts = [data.train] if data.validates_on_test else [data.train, data.valid]
    together = Concatenated(parts)
    folds = stratified_folds(
        torch.cat([class_targets.of(part) for part in parts]), num_folds, seed=split_seed
    )
    rest = (
        torch.cat([indices for number, indices in enumerate(folds) if number != fold]).sort().values
    )
    in_memory = all(isinstance(part, ArrayDataset) for part in parts)
    train, valid = (
        ArrayDataset(*together.__getitems__(indices)) if in_memory else Partial(together, indices)
        for indices in (rest, folds[fold])
    )
    name = f"{data.name}, fold {fold} of {num_folds}"
    folded: Splits = dataclasses.replace(
        data, name=name, train=train, valid=valid, validates_on_test=False
    )
    return folded
