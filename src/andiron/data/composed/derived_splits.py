"""Splits derived from others: sampled by weight, balanced, a random part, or folds."""

import dataclasses
from typing import Annotated

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from andiron import randomness
from andiron.data.composed.composed_datasets import Partial, chosen, classes_of, joined, targets_of
from andiron.data.dataset import ArrayDataset, Classes, Dataset, is_stream
from andiron.data.splitting import splits
from andiron.data.splitting.divided_rows import Division, Parts
from andiron.data.splitting.splits import Splits
from andiron.data.splitting.stratified import stratified_split
from andiron.ranges import Count, Index, Node, Seed
from andiron.recording import keep_arguments

Weights = Float[Tensor, " size"]  # of each sample


def draws(weights: Weights, number: int, *, seed: int) -> Int[Tensor, " number"]:
    """`number` indices drawn with replacement: index i with probability weights[i] / sum(weights).

    A function of the arguments alone. Weights are finite, at least 0, and not all 0.
    """
    ends = weights.cpu().double().cumsum(0)
    stream = randomness.stream(seed, "sampling")
    places = torch.rand(number, dtype=torch.float64, generator=stream)  # at most 1 - 2^-53
    return torch.searchsorted(ends, places * ends[-1], right=True)


def balanced_weights(targets: Classes) -> Weights:
    """A weight for each sample that gives every class present the same probability.

    Samples with a target below 0 (IGNORED) have weight 0.
    Raises: ValueError if no sample has a class.
    """
    is_class = targets >= 0
    if not is_class.any():
        raise ValueError("no sample has a class, so there is nothing to balance")
    counts = torch.bincount(targets[is_class])
    return torch.where(is_class, 1 / counts[targets.clamp(min=0)].double(), 0.0)


@keep_arguments
def balanced(
    data: Node, *, size: Count | None, seed: Seed, targets: str | None = None
) -> Splits:
    """`data` with training samples drawn so that every class has the same probability.

    An epoch has `size` samples, by default as many as before: the same ones in every epoch,
    reshuffled. The class is in the field `targets` of batches that are no pairs.
    Raises: ValueError if the targets are not classes.
    """
    classes = torch.cat([*targets_of(data.train, targets)])
    if classes.dim() != 1 or classes.is_floating_point():
        raise ValueError(
            f"{data.name} has no classes to balance: its targets are {classes.dtype} "
            f"of shape {[*classes.shape]}"
        )
    drawn = draws(balanced_weights(classes.long()), size or len(classes), seed=seed)
    return redivided(data, f"{data.name}, balanced", drawn)


@keep_arguments
def partial(
    data: Node, *, fraction: Annotated[float, Field(gt=0, le=1)], seed: Seed,
    targets: str | None = None,
) -> Splits:  # fmt: skip
    """`data` with a random `fraction` of the training samples, of every class if there are classes.

    With one seed, a smaller fraction is part of a larger one. The class is in the field `targets`
    of batches that are no pairs.
    Raises: ValueError if no sample would be left.
    """
    classes = classes_of(data.train, targets)
    _, labels = torch.unique(classes, return_inverse=True)  # the split takes them from 0 on
    _, kept = stratified_split(labels, float(fraction), seed, of_each=False)
    if not len(kept):
        raise ValueError(
            f"fraction={fraction}: leaves none of {len(labels)} training samples; enlarge it"
        )
    return redivided(data, f"{data.name}, {fraction} of it", kept)


def few(splits: Splits, samples: int) -> Splits:
    """At most `samples` samples of each part, evenly spread over it; the facts stay."""

    def evenly(part: Dataset) -> Dataset:
        indices = torch.linspace(0, len(part) - 1, min(samples, len(part))).long()
        return chosen(part, indices)

    counts = {} if splits.class_counts is None else {"class_counts": splits.class_counts}
    name, facts = f"{splits.name}, a few of them", {**counts, **splits.facts}
    return dataclasses.replace(splits.mapped(evenly), name=name, facts=facts)


@keep_arguments
def kfold(
    data: Node, *, fold: Index, num_folds: Annotated[int, Field(ge=2)], split_seed: Seed,
    targets: str | None = None,
) -> Splits:  # fmt: skip
    """`data` with training and validation samples redivided; fold `fold`, from 0, validates.

    The folds follow the option `split` of `data` (see `Division.fold`): groups stay whole, and in
    order each fold trains on the samples before it. By default classes, in the field `targets` of
    batches that are no pairs, are in proportion in every fold. Test samples stay; what the data set
    learns from its training samples is learned from the training folds. If `data` validates on its
    test samples, only the training samples are divided. The folds are a function of `data` and
    `split_seed`: the runs of one cross-validation differ in `fold` alone.
    Raises: ValueError for a fold out of range.
    """
    if not 0 <= fold < num_folds:
        raise ValueError(
            f"fold={fold}: should be from 0 to {num_folds - 1}, as num_folds={num_folds}"
        )
    train, valid = _divided_rows(data, targets).fold(fold, num_folds, seed=split_seed)
    return redivided(data, f"{data.name}, fold {fold} of {num_folds}", train, valid)


def _divided_rows(data: Splits, targets: str | None) -> Division:
    """The training and validation samples, to be divided as the option `split` of `data` says."""
    option = None if data.division is None else data.division.option
    if option in (None, "stratified"):
        classes = torch.cat([classes_of(part, targets) for part in _divided_parts(data)])
        return Division(len(classes), classes=classes)
    if data.division is None or (refit := data.own_refit) is None:
        raise ValueError(
            f"data.split={option}: folds are of the rows of one data set, and a part of "
            f"{data.name} is another one; give data.data.valid as a fraction"
        )
    rows = refit.rows.train
    if not data.validates_on_test:
        rows = torch.cat([rows, refit.rows.valid])
    if len(torch.unique(rows)) < len(rows):
        raise ValueError(
            f"{data.name}: has samples twice, which would train and validate in one fold; balance "
            "the folds: data=balanced data@data.data=kfold"
        )
    return data.division.at(rows)


def redivided(data: Splits, name: str, train: Tensor, valid: Tensor | None = None) -> Splits:
    """`data` whose samples at `train` train, and those at `valid` validate, by default as before.

    Indices are of the training samples followed by the validation samples. What the data set learns
    from its training samples is learned from the new ones, if it has a `refit` that fits.
    Raises: ValueError for a stream, whose sample at an index is another one in each epoch.
    """
    if is_stream(data.train):
        raise ValueError(f"{data.name} is a stream: choose its samples in its __iter__")
    if (refit := data.own_refit) is not None:
        rows = refit.rows
        both = torch.cat([rows.train, rows.valid])
        held_out = rows.valid if valid is None else both[valid]
        made = splits.of_rows(refit.make, Parts(both[train], held_out, rows.test))
        more = {**data.more, **made.more}
        checksums = {**data.more_fingerprints, **made.more_fingerprints}
        return dataclasses.replace(made, name=name, more=more, more_fingerprints=checksums)
    facts = {key: value for key, value in data.facts.items() if key != "class_counts"}
    data = dataclasses.replace(data, name=name, facts=facts)
    if valid is None:
        return dataclasses.replace(data, train=chosen(data.train, train))
    parts = _divided_parts(data)
    together = joined(parts)
    in_memory = all(isinstance(part, ArrayDataset) for part in parts)
    new: list[Dataset] = [
        ArrayDataset(*together.__getitems__(indices)) if in_memory else Partial(together, indices)
        for indices in (train, valid)
    ]
    return dataclasses.replace(data, train=new[0], valid=new[1], validates_on_test=False)


def _divided_parts(data: Splits) -> list[Dataset]:
    """The parts that `kfold` divides anew."""
    return [data.train] if data.validates_on_test else [data.train, data.valid]
