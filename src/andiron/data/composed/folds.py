"""Cross-validation: the samples in folds; each fold validates once."""

import dataclasses
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from andiron import randomness
from andiron.data.arrays import ArrayDataset
from andiron.data.composed.composed_datasets import Concatenated, Partial, classes_of
from andiron.data.dataset import Classes
from andiron.data.splits import Splits
from andiron.ranges import Index, Node, Seed


def stratified_folds(targets: Classes, number: int, *, seed: int) -> list[Tensor]:
    """The indices of `number` folds, each ascending; every sample is in exactly one.

    Shuffled, sorted by class and dealt out in turn, so that the sizes of two folds, and their
    numbers of samples of one class, differ by at most one.
    Raises: ValueError if a fold would be empty, or there is only one.
    """
    if not 2 <= number <= len(targets):
        raise ValueError(
            f"num_folds={number}: should be from 2 to {len(targets)}, the number of samples; "
            "5 and 10 are usual"
        )
    shuffled = torch.randperm(len(targets), generator=randomness.stream(seed, "folds"))
    by_class = shuffled[targets.cpu()[shuffled].sort(stable=True).indices]
    return [by_class[first::number].sort().values for first in range(number)]


def kfold(
    data: Node, *, fold: Index, num_folds: Annotated[int, Field(ge=2)], split_seed: Seed
) -> Splits:
    """`data` with its training and validation samples divided anew; fold `fold`, from 0, validates.

    Classes are in proportion in every fold. Test samples, facts and batcher stay. If `data`
    validates on its test samples, only the training samples are divided. The folds are a function
    of `data` and `split_seed`: the runs of one cross-validation differ in `fold` alone.
    Raises: ValueError for a fold out of range.
    """
    if not 0 <= fold < num_folds:
        raise ValueError(
            f"fold={fold}: should be from 0 to {num_folds - 1}, as num_folds={num_folds}"
        )
    parts = [data.train] if data.validates_on_test else [data.train, data.valid]
    together = Concatenated(parts)
    classes = torch.cat([classes_of(part) for part in parts])
    folds = stratified_folds(classes, num_folds, seed=split_seed)
    rest = torch.cat(folds[:fold] + folds[fold + 1 :]).sort().values
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
