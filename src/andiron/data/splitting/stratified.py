"""Parts and folds that have their share of every class, as a function of the classes and a seed."""

import math

import torch
from torch import Tensor

from andiron import randomness
from andiron.data.dataset import Classes

TOLERANCE = 1e-3  # of the size of a part, as the 5,999 of MNIST's 60,000 images


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


def stratified_folds(targets: Classes, number: int, *, seed: int) -> list[Tensor]:
    """The indices of `number` folds, each ascending; every sample is in exactly one.

    Samples are shuffled, sorted by class and dealt out in turn: fold sizes, overall and for each
    class, differ by at most one.
    Raises: ValueError if a fold would be empty, or for a single fold.
    """
    if not 2 <= number <= len(targets):
        raise wrong_number(number, len(targets), "samples")
    shuffled = torch.randperm(len(targets), generator=randomness.stream(seed, "folds"))
    by_class = shuffled[targets.cpu()[shuffled].sort(stable=True).indices]
    return [by_class[first::number].sort().values for first in range(number)]


def wrong_number(number: int, most: int, noun: str) -> ValueError:
    """The error for a number of folds of which one would be empty, or for a single fold."""
    return ValueError(
        f"num_folds={number}: should be from 2 to {most}, the number of {noun}; 5 and 10 are usual"
    )
