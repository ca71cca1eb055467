"""Which of several parts has the sample at a place, and how many samples of it came before.

    >>> import torch
    >>> schedule = Shares({0: [3, 1], 40000: [1, 1]})
    >>> owners, ranks = schedule.at(torch.arange(6), seed=4)
    >>> owners.tolist(), ranks.tolist()
    ([0, 0, 0, 1, 0, 0], [0, 1, 2, 0, 3, 4])

Places are counted from 0 over all epochs. They are cut in blocks of 16,384, in which each part has
the same number of samples, its share rounded to a whole one, in an order that is a function of
(seed, block). So the number of samples before a place needs no pass over the places before it.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from andiron import randomness

PLACES = 2**14  # in a block: the unit of a share

Counts = tuple[int, ...]  # of samples of each part
Owners = Int[Tensor, " number"]
Ranks = Int[Tensor, " number"]


@dataclass(frozen=True)
class Stretch:
    """Places from `begin` on with `counts` samples of each part in a block."""

    begin: int
    counts: Counts
    before: Counts  # samples of each part at the places before `begin`


class Shares:
    """The shares of parts by the place from which they hold; the first holds from 0.

    `weights` of the parts need not add up to 1.
    Raises: ValueError for no place 0, or weights without a positive one, or too small for a block.
    """

    def __init__(self, weights: Mapping[int, Sequence[float]]):
        if min(weights, default=1) != 0:
            raise ValueError("the first shares hold from sample 0")
        self.counts = tuple((begin, block_counts(weights[begin])) for begin in sorted(weights))

    def at(self, places: Int[Tensor, " number"], seed: int) -> tuple[Owners, Ranks]:
        """The part that has the sample at each of `places`, and its number in that part."""
        owners, ranks = torch.empty_like(places), torch.empty_like(places)
        stretches = _stretches(self.counts, seed)
        begins = torch.tensor([stretch.begin for stretch in stretches])
        stretch_of = torch.searchsorted(begins, places, right=True) - 1
        offsets = places - begins[stretch_of]
        blocks, inside = offsets // PLACES, offsets % PLACES
        for number, block in {*zip(stretch_of.tolist(), blocks.tolist(), strict=True)}:
            chosen = (stretch_of == number) & (blocks == block)
            own, rank = _block(stretches[number], block, seed)
            owners[chosen], ranks[chosen] = own[inside[chosen]], rank[inside[chosen]]
        return owners, ranks


def block_counts(weights: Sequence[float]) -> Counts:
    """The number of samples of each part in a block, by largest remainders.

    Raises: ValueError if no weight is positive, or a positive one has no sample in a block.
    """
    total = math.fsum(weights)
    if not total > 0:
        raise ValueError("no weight is above 0; give at least one part some weight")
    shares = [weight / total * PLACES for weight in weights]
    counts = [math.floor(share) for share in shares]
    by_rest = sorted(range(len(shares)), key=lambda part: counts[part] - shares[part])
    for part in by_rest[: PLACES - sum(counts)]:
        counts[part] += 1
    for weight, count in zip(weights, counts, strict=True):
        if weight > 0 and not count:
            raise ValueError(
                f"weight {weight:g} of {total:g} is less than one sample in {PLACES:,}; "
                "enlarge it, or leave the part out"
            )
    return tuple(counts)


@functools.lru_cache(maxsize=4)
def _stretches(counts: tuple[tuple[int, Counts], ...], seed: int) -> list[Stretch]:
    stretches = list[Stretch]()
    for begin, of_block in counts:
        before = _before(stretches[-1], begin, seed) if stretches else (0,) * len(of_block)
        stretches.append(Stretch(begin, of_block, before))
    return stretches


def _before(stretch: Stretch, end: int, seed: int) -> Counts:
    """The samples of each part at the places before `end`, in or after the stretch."""
    block, places = divmod(end - stretch.begin, PLACES)
    owners, _ = _block(stretch, block, seed)
    rest = torch.bincount(owners[:places], minlength=len(stretch.counts))
    return tuple((_before_block(stretch, block) + rest).tolist())


def _before_block(stretch: Stretch, block: int) -> Int[Tensor, " parts"]:
    return torch.tensor(stretch.before) + block * torch.tensor(stretch.counts)


@functools.lru_cache(maxsize=8)
def _block(stretch: Stretch, block: int, seed: int) -> tuple[Owners, Ranks]:
    """The part that has the sample at each place of a block, and its number in that part."""
    generator = randomness.stream(seed, "mixture", stretch.begin, block)
    counts = torch.tensor(stretch.counts)
    sorted_owners = torch.arange(len(counts)).repeat_interleave(counts)
    owners = sorted_owners[torch.randperm(PLACES, generator=generator)]
    by_part = owners.argsort(stable=True)
    first = _before_block(stretch, block) - counts.cumsum(0) + counts
    ranks = torch.empty_like(owners)
    ranks[by_part] = torch.arange(PLACES) + first[owners[by_part]]
    return owners, ranks
