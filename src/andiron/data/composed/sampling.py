"""Training on other samples than all of them once: drawn by weight, or a part of them."""

import dataclasses
from typing import Annotated

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from andiron import randomness
from andiron.data import class_targets, splits
from andiron.data.composed import composed_datasets
from andiron.data.dataset import Dataset
from andiron.data.splits import Splits
from andiron.ranges import Count, Node, Seed


def draws(weights: Float[Tensor, " size"], number: int, *, seed: int) -> Int[Tensor, " number"]:
    """`number` indices drawn with replacement, index i with probability weights[i] / sum(weights).

    A function of the arguments alone.
    Raises: ValueError for weights that are no probabilities, or a number below 1.
    """
    _check_weights(weights)
    if number < 1:
        raise ValueError(
            f"size={number}: should be 1 or more samples; leave it out to draw as many as there are"
        )
    ends = weights.cpu().double().cumsum(0)
    places = torch.rand(
        number, dtype=torch.float64, generator=randomness.stream(seed, "sampling")
    )  # at most 1 - 2^-53
    return torch.searchsorted(ends, places * ends[-1], right=True)


def balanced_weights(targets: Int[Tensor, " size"]) -> Float[Tensor, " size"]:
    """A weight for each sample, by which every class that there is has the same probability.

    A target below 0 (IGNORED) is of no class; its sample has none.
    Raises: ValueError if there is no class.
    """
    is_class = targets >= 0
    if not bool(is_class.any()):
        raise ValueError("no sample has a class: there is nothing to balance")
    counts = torch.bincount(targets[is_class])
    return torch.where(is_class, 1 / counts[targets.clamp(min=0)].double(), 0.0)


def sampled(
    dataset: Dataset, weights: Float[Tensor, " size"], *, size: int | None = None, seed: int
) -> Dataset:
    """The data set in `size` draws with replacement, by default as many as it has samples; the draws are made once.

    Raises: ValueError as `draws`, and for another number of weights than of samples.
    """
    if len(weights) != len(dataset):
        raise ValueError(
            f"{len(weights)} weights but {len(dataset)} samples; each sample needs one"
        )
    return composed_datasets.chosen(
        dataset, draws(weights, len(dataset) if size is None else size, seed=seed)
    )


def balanced(data: Node, *, size: Count | None, seed: Seed) -> Splits:
    """The data with training samples drawn so that every class comes equally often, `size` in an epoch or as many as before.

    The draws are the same in every epoch; their order is not.
    Raises: ValueError if the targets are no classes.
    """
    targets = class_targets.targets_of(data.train)
    if targets.dim() != 1 or targets.is_floating_point():
        raise ValueError(
            f"{data.name} has no classes to balance: its targets are {targets.dtype} of shape {[*targets.shape]}"
        )
    train = sampled(data.train, balanced_weights(targets.long()), size=size, seed=seed)
    balanced_data: Splits = dataclasses.replace(data, name=f"{data.name}, balanced", train=train)
    return balanced_data


def partial(
    data: Node, *, fraction: Annotated[float, Field(gt=0, le=1)], seed: Seed
) -> Splits:
    """The data with a random `fraction` of the training samples, of every class where there are some.

    A smaller fraction by the same seed is part of a larger one.
    Raises: ValueError if nothing would be left.
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction={fraction}: should be above 0 and at most 1, which leaves all")
    _, labels = torch.unique(
        class_targets.of(data.train), return_inverse=True
    )  # counted from 0, as the split needs them
    _, kept = splits.stratified_split(labels, float(fraction), seed)
    if not len(kept):
        raise ValueError(
            f"fraction={fraction}: leaves none of {len(labels)} training samples; choose a larger one"
        )
    train = composed_datasets.chosen(data.train, kept)
    part: Splits = dataclasses.replace(data, name=f"{data.name}, {fraction} of it", train=train)
    return part


def _check_weights(weights: Tensor) -> None:
    wrong = (~(weights >= 0) | weights.isinf()).nonzero().flatten()  # a NaN is not at least 0
    if len(wrong):
        first = int(wrong[0])
        raise ValueError(
            f"weight {first} is {float(weights[first])}: should be a finite number from 0 up; 0 is never drawn"
        )
    if not bool((weights > 0).any()):
        raise ValueError("no weight is above 0: there is nothing to draw")
