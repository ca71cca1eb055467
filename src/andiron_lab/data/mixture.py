"""Several data sets as one: samples of each part by its weight, each part in its own order.

    >>> from andiron.data import digits
    >>> both = {"one": digits(valid=0.1, split_seed=0), "two": digits(valid=0.1, split_seed=1)}
    >>> splits = mixture(parts=both, weights={"one": 3, "two": 1}, size=1000)
    >>> len(splits.train), [*splits.by_name]
    (1000, ['train', 'valid', 'test', 'one', 'two'])
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from andiron import errors, randomness
from andiron.data.augment.sample_random import Draws
from andiron.data.composed.composed_datasets import Derived, joined
from andiron.data.dataset import Dataset, Indices, drawn, is_stream
from andiron.data.splitting import fingerprint
from andiron.data.splitting.splits import Splits
from andiron.ranges import Count, Index, Node, NonNegative, SetName
from andiron.recording import keep_arguments
from andiron_lab.data.mixing_order import Shares

MOST_LISTED = 2**17  # samples of a part whose order is a tensor
PLACE = "tokenizer_path"  # the fact that may differ: its file is compared by SHA-256
Weights = Mapping[str, float]


class Mixture(Derived):
    """An epoch of `size` samples, the next ones of an endless mixture of `datasets`.

    Sample i of epoch e is the one at place e * size + i. Its part is a function of (seed, place),
    where the seed is that of the loader's order; the samples of a part come in passes over it, each
    in an order of its own, a function of (seed, part, pass). Random transforms take their numbers
    from (seed, epoch, i), so they differ when a sample comes again.
    """

    is_stream = True  # a loader keeps the order

    def __init__(self, datasets: Sequence[Dataset], shares: Shares, size: int):
        self.dataset = joined(datasets)
        self.shares, self.size = shares, size
        self._lengths = [*map(len, datasets)]
        self._begins = torch.tensor([0, *self._lengths]).cumsum(0)

    def __len__(self) -> int:
        return self.size

    def drawn(self, indices: Indices, draws: Draws | None) -> Any:
        epoch, seed = (0, 0) if draws is None else (draws.epoch, draws.seed)
        places = torch.as_tensor(indices, dtype=torch.int64, device="cpu") + epoch * self.size
        return drawn(self.dataset, self.rows(places, seed), draws)

    def rows(self, places: Int[Tensor, " number"], seed: int) -> Int[Tensor, " number"]:
        """The index of the sample at each place, where all parts stand in a row."""
        owners, ranks = self.shares.at(places, seed)
        rows = torch.empty_like(places)
        for part in {*owners.tolist()}:
            length = self._lengths[part]
            passes = ranks // length
            for number in {*passes[owners == part].tolist()}:
                chosen = (owners == part) & (passes == number)
                inside = ranks[chosen] % length
                first, last = map(int, inside.aminmax())
                order = _order(length, randomness.derive(seed, "part", part), number)
                rows[chosen] = self._begins[part] + order[first : last + 1][inside - first]
        return rows


@functools.lru_cache(maxsize=64)
def _order(size: int, seed: int, number: int) -> randomness.Order:
    """The order of a pass over a part; the orders that are kept take at most 64 MiB."""
    is_listed = size <= MOST_LISTED
    return (randomness.permutation if is_listed else randomness.LongOrder)(size, seed, number)


@keep_arguments
def mixture(
    *,
    parts: dict[SetName, Node],
    weights: dict[SetName, NonNegative] | None = None,
    changes: dict[Index | str, dict[SetName, NonNegative]] | None = None,
    size: Count | None = None,
) -> Splits:
    """Training samples of several data sets, each drawn in proportion to its weight.

    Without `weights` every part has its number of samples as its weight. `changes` are the weights
    from a sample on, counted from 0 over all epochs: {640000: {web: 1, books: 3}}; a resumed run
    may add some after the samples that it has trained on. An epoch has `size` samples, by default
    as many as the parts have together. All parts are validated and tested together,
    and each part's validation samples are a further validation set of its name.
    Raises: DataError naming the part or the weight that does not fit the others.
    """
    if not parts:
        raise errors.DataError("data.parts: is empty; name the data sets to mix")
    _check_alike(parts)
    own: Weights = {name: len(part.train) for name, part in parts.items()}
    shares = _shares({0: own if weights is None else weights, **(changes or {})}, [*parts])
    number = size or sum(len(part.train) for part in parts.values())
    train = Mixture([part.train for part in parts.values()], shares, number)
    first = next(iter(parts.values()))
    valid, test = (_together(parts, name) for name in ("valid", "test"))
    return Splits(
        name=" + ".join(part.name for part in parts.values()),
        train=train,
        valid=valid,
        test=test,
        batcher=first.batcher,
        facts=first.facts,
        fingerprint=fingerprint.of_texts(
            f"{name} {part.fingerprint}\n" for name, part in parts.items()
        ),
        evaluation_batch_size=min(part.evaluation_batch_size for part in parts.values()),
        more={**{name: part.valid for name, part in parts.items()}, **_further_sets(parts)},
        more_fingerprints={name: part.fingerprint for name, part in parts.items()},
    )


def _check_alike(parts: Mapping[str, Splits]) -> None:
    """Refuses parts whose samples do not mean the same."""
    (first, reference), *others = parts.items()
    for name, part in parts.items():
        if is_stream(part.train):
            raise errors.DataError(
                f"data.parts.{name}: is a stream, whose samples have no index; mix data sets with "
                "a length"
            )
    for name, part in others:
        if part.batcher != reference.batcher:
            raise errors.DataError(
                f"data.parts.{name}: its numbers are changed by {part.batcher}, and in {first} "
                f"by {reference.batcher}; give both parts the same mean and std"
            )
        for fact in sorted({*reference.facts, *part.facts} - {PLACE}):
            if reference.facts.get(fact) != part.facts.get(fact):
                sides = (f"{str(side.facts.get(fact)):.100}" for side in (part, reference))
                raise errors.DataError(
                    f"data.parts.{name}: {fact} is {next(sides)}, that of {first} is "
                    f"{next(sides)}; a model learns one of them: choose parts that agree"
                )


def _shares(weights: Mapping[int | str, Weights], names: Sequence[str]) -> Shares:
    by_begin = {}
    for begin, of_parts in weights.items():
        if not str(begin).isdecimal():
            raise errors.DataError(
                f"data.changes.{begin}: should be the number of a sample, such as 640000"
            )
        option = f"data.changes.{begin}" if begin else "data.weights"
        if {*of_parts} != {*names}:
            raise errors.DataError(
                f"{option}: is for {', '.join(of_parts)}; the parts are {', '.join(names)}: give "
                "each its weight, 0 to leave it out"
            )
        by_begin[int(begin)] = [of_parts[name] for name in names]
    try:
        return Shares(by_begin)
    except ValueError as error:
        raise errors.DataError(f"data.weights: {error}") from error


def _together(parts: Mapping[str, Splits], name: str) -> Dataset:
    return joined([part.by_name[name] for part in parts.values()])


def _further_sets(parts: Mapping[str, Splits]) -> dict[str, Dataset]:
    """The further validation sets of the parts, as part_set."""
    return {
        f"{name}_{further}": dataset
        for name, part in parts.items() for further, dataset in part.more.items()
    }  # fmt: skip
