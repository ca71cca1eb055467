"""Samples drawn by weight, balanced classes, and parts of the training data."""

import math
import re

import pytest
import torch

from andiron.data.batchers import ImageBatcher
from andiron.data.composed.composed_datasets import Mapped, Partial
from andiron.data.composed.derived_splits import balanced, balanced_weights, draws, partial
from andiron.data.dataset import ArrayDataset, RawBatch
from andiron.data.splitting.splits import Splits

TARGETS = torch.tensor([0] * 40 + [1] * 9 + [3] * 3)[
    torch.randperm(52, generator=torch.Generator().manual_seed(0))
]
DRAWN = 20_000


def dataset(targets=TARGETS):
    """Samples whose inputs are their indices."""
    return ArrayDataset(torch.arange(len(targets)).unsqueeze(1), targets)


def splits(train):
    batcher = ImageBatcher(mean=0.0, std=1.0)
    facts = {"input_shape": (1,), "num_classes": 4}
    return Splits(
        "numbers", train=train, valid=dataset(), test=dataset(), batcher=batcher, facts=facts,
        fingerprint="abc",
    )  # fmt: skip


def numbers(data):
    """Which samples a data set has, by their inputs."""
    return data.__getitems__(range(len(data))).inputs.flatten().tolist()


def within(count, probability):
    """Whether the count of DRAWN draws is what the probability makes likely.

    Hoeffding: P(|count / n - p| >= t) <= 2 exp(-2 n t^2), which is 1e-9 at t = sqrt(log(2e9) / 2n),
    0.023 for 20,000.
    """
    return abs(count / DRAWN - probability) < math.sqrt(math.log(2e9) / (2 * DRAWN))


def test_samples_are_drawn_in_proportion_to_weight_and_never_at_weight_0():
    weights = torch.tensor([0.0, 1.0, 0.5, 0.0, 2.5, 0.0])
    counts = torch.bincount(draws(weights, DRAWN, seed=0), minlength=6).tolist()

    for count, weight in zip(counts, weights.tolist(), strict=True):
        assert within(count, weight / 4)
        assert (count == 0) == (weight == 0)


def test_draws_invert_the_distribution_and_fewer_draws_are_their_beginning():
    weights = torch.tensor([0.25, 0.0, 0.5, 0.25])
    result = draws(weights, 50, seed=7)

    # the scale of the weights does not matter
    assert torch.equal(draws(4 * weights, 50, seed=7), result)
    assert torch.equal(draws(weights, 20, seed=7), result[:20])
    assert torch.equal(draws(weights.flip(0), 50, seed=8), draws(weights.flip(0), 50, seed=8))
    assert not torch.equal(draws(weights, 50, seed=8), result)


def test_balanced_weights_are_equal_for_classes_and_zero_for_ignored():
    weights = balanced_weights(torch.tensor([0, 2, -100, 0, 2, 0, 0, 5]))
    assert weights.tolist() == [0.25, 0.5, 0, 0.25, 0.5, 0.25, 0.25, 1]


def test_a_balanced_draw_has_every_class_equally_often():
    data = splits(dataset())
    result = balanced(data, size=DRAWN, seed=0)

    counts = torch.bincount(result.train.targets, minlength=4).tolist()
    assert counts[2] == 0
    assert all(within(counts[label], 1 / 3) for label in (0, 1, 3))
    assert torch.equal(result.train.targets, TARGETS[numbers(result.train)])
    assert isinstance(result.train, ArrayDataset)
    assert (result.name, result.valid, result.test) == ("numbers, balanced", data.valid, data.test)
    assert sum(result.offered["class_counts"]) == DRAWN


def test_without_a_size_as_many_are_drawn_as_there_are():
    assert len(balanced(splits(dataset()), size=None, seed=0).train) == 52


@pytest.mark.parametrize("seed", [0, 1])
def test_data_that_is_not_in_memory_is_drawn_and_parted_the_same(seed):
    viewed, in_memory = splits(Mapped(dataset(), lambda raw: RawBatch(*raw))), splits(dataset())

    for change in (
        lambda data: balanced(data, size=30, seed=seed),
        lambda data: partial(data, fraction=0.3, seed=seed),
    ):
        assert isinstance(change(viewed).train, Partial)
        assert numbers(change(viewed).train) == numbers(change(in_memory).train)


def test_a_part_has_the_fraction_of_every_class():
    data = splits(dataset())
    result = partial(data, fraction=0.3, seed=0)

    # of 40, 9 and 3: 12, 2.7 and 0.9
    assert torch.bincount(result.train.targets).tolist() == [12, 3, 0, 1]
    assert torch.equal(result.train.targets, TARGETS[numbers(result.train)])
    assert (result.name, result.valid, result.test) == ("numbers, 0.3 of it", data.valid, data.test)


def test_a_smaller_part_lies_within_a_larger_and_the_whole_is_the_whole():
    result = [
        {*numbers(partial(splits(dataset()), fraction=fraction, seed=4).train)}
        for fraction in (0.1, 0.3, 0.7, 1)
    ]

    for smaller, larger in zip(result, result[1:]):
        assert smaller < larger
    assert result[-1] == {*range(52)}


def test_targets_without_classes_split_at_random_and_ignored_as_a_class():
    assert len(partial(splits(dataset(TARGETS.float())), fraction=0.25, seed=0).train) == 13
    ignored = torch.where(TARGETS == 0, -100, TARGETS)
    assert numbers(partial(splits(dataset(ignored)), fraction=0.3, seed=0).train) == numbers(
        partial(splits(dataset()), fraction=0.3, seed=0).train
    )


@pytest.mark.parametrize("call, message", [
    (lambda: balanced_weights(torch.tensor([-100, -1])),
     "no sample has a class, so there is nothing to balance"),
    (lambda: balanced(splits(dataset(TARGETS.float())), size=None, seed=0),
     "numbers has no classes to balance: its targets are torch.float32 of shape [52]"),
    (lambda: partial(splits(dataset()), fraction=0, seed=0),
     "fraction=0: leaves none of 52 training samples; enlarge it"),
    (lambda: partial(splits(dataset()), fraction=0.01, seed=0),
     "fraction=0.01: leaves none of 52 training samples; enlarge it"),
])  # fmt: skip
def test_what_cannot_be_drawn_is_refused(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()
