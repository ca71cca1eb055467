"""Training sets drawn from another: by weight with replacement, balanced, or a random part."""

import dataclasses
from typing import Annotated

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from andiron import randomness
from andiron.data import splits
from andiron.data.composed import composed_datasets
from andiron.data.dataset import Classes, Dataset
from andiron.data.splits import Splits
from andiron.ranges import Count, Node, Seed

Weights = Float[Tensor, " size"]  # of each sample


def draws(weights: Weights, number: int, *, seed: int) -> Int[Tensor, " number"]:
    """`number` indices drawn with replacement: index i with probability weights[i] / sum(weights).

    A function of the arguments alone.
    Raises: ValueError for negative or non-finite weights, or only zeros.
    """
    wrong = (~(weights >= 0) | weights.isinf()).nonzero().flatten()  # a NaN is not at least 0
    if len(wrong):
        first = int(wrong[0])
        raise ValueError(
            f"weight {first} is {float(weights[first])}: should be finite and at least 0; "
            "0 is never drawn"
        )
    if not weights.any():
        raise ValueError("no weight is above 0: there is nothing to draw")
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
        raise ValueError("no sample has a class: there is nothing to balance")
    counts = torch.bincount(targets[is_class])
    return torch.where(is_class, 1 / counts[targets.clamp(min=0)].double(), 0.0)


def sampled(
    dataset: Dataset, weights: Weights, *, size: int | None = None, seed: int
) -> Dataset:
    """`size` samples drawn once with replacement, by default as many as the data set has.

    Raises: ValueError as `draws`, and if the number of weights is not the number of samples.
    """
    if len(weights) != len(dataset):
        raise ValueError(
            f"{len(weights)} weights but {len(dataset)} samples; each sample needs one"
        )
    return composed_datasets.chosen(
        dataset, draws(weights, len(dataset) if size is None else size, seed=seed)
    )


def balanced(data: Node, *, size: Count | None, seed: Seed) -> Splits:
    """`data` with training samples drawn so that every class has the same probability.

    An epoch has `size` samples, by default as many as before: the same ones in every epoch, in
    another order.
    Raises: ValueError if the targets are not classes.
    """
    targets = composed_datasets.targets_of(data.train)
    if targets.dim() != 1 or targets.is_floating_point():
        raise ValueError(
            f"{data.name} has no classes to balance: its targets are {targets.dtype} "
            f"of shape {[*targets.shape]}"
        )
    train = sampled(data.train, balanced_weights(targets.long()), size=size, seed=seed)
    balanced_data: Splits = dataclasses.replace(data, name=f"{data.name}, balanced", train=train)
    return balanced_data


def partial(
    data: Node, *, fraction: Annotated[float, Field(gt=0, le=1)], seed: Seed
) -> Splits:
    """`data` with a random `fraction` of the training samples, of every class if there are classes.

    With one seed, a smaller fraction is part of a larger one.
    Raises: ValueError if no sample would be left.
    """
    classes = composed_datasets.classes_of(data.train)
    _, labels = torch.unique(classes, return_inverse=True)  # the split takes them from 0 on
    _, kept = splits.stratified_split(labels, float(fraction), seed)
    if not len(kept):
        raise ValueError(
            f"fraction={fraction}: leaves none of {len(labels)} training samples; enlarge it"
        )
    train = composed_datasets.chosen(data.train, kept)
    part: Splits = dataclasses.replace(data, name=f"{data.name}, {fraction} of it", train=train)
    return part
