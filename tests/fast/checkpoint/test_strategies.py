"""Which checkpoints stay, as tables."""

import itertools
import math
import random

import pytest

from andiron.checkpoint import strategies
from andiron.checkpoint import AnyOf, KeepBest, KeepEvery, KeepLast, Saved, last_and_best
from refusals import message_of


def saved(*losses, split="valid", metric="loss"):
    """A checkpoint every ten updates; None where nothing was measured."""
    return [
        Saved(10 * number, {split: {metric: loss}} if loss is not None else {})
        for number, loss in enumerate(losses, start=1)
    ]


def steps(updates):
    return {f"step-{number}" for number in updates}


@pytest.mark.parametrize("number, losses, kept", [
    (1, (), set()), (1, (0.5,), {10}), (1, (0.5, 0.4, 0.9), {30}), (2, (0.5,), {10}),
    (2, (0.5, 0.4, 0.9), {20, 30}), (5, (0.5, 0.4, 0.9), {10, 20, 30}),
])  # fmt: skip
def test_the_last_ones_stay(number, losses, kept):
    assert KeepLast(number)(saved(*losses)) == steps(kept)


@pytest.mark.parametrize(
    "direction, losses, kept",
    [
        ("lowest", (), set()),
        ("lowest", (0.5, 0.4, 0.9), {20}),
        ("highest", (0.5, 0.4, 0.9), {30}),
        ("lowest", (0.5, 0.4, 0.4, 0.4), {20}),  # the earliest of equals
        ("highest", (0.9, 0.4, 0.9), {10}),
        ("lowest", (None, 0.4, None), {20}),
        ("lowest", (None, None), set()),
        ("highest", (-3.0, -2.0, -4.0), {20}),
        ("lowest", (math.nan, 0.4, -math.inf), {20}),  # what is no number is never best
        ("highest", (math.inf, math.nan), set()),
    ],
)
def test_the_best_one_stays(direction, losses, kept):
    assert KeepBest("loss", direction=direction)(saved(*losses)) == steps(kept)


@pytest.mark.parametrize("number, losses, kept", [
    (3, (0.5, 0.4), {10, 20}),
    (2, (0.5, 0.4, 0.9, 0.3), {20, 40}),
    (2, (0.4, 0.4, 0.4), {10, 20}),
    (2, (math.nan, 0.9, None, 0.1, 0.5), {40, 50}),
])  # fmt: skip
def test_the_best_k_stay(number, losses, kept):
    assert KeepBest("loss", number=number)(saved(*losses)) == steps(kept)


def test_the_best_is_that_of_the_first_metric_however_many_are_kept():
    history = [
        Saved(10, {"valid": {"loss": 0.3, "accuracy": 0.9}}),
        Saved(20, {"valid": {"loss": 0.1, "accuracy": 0.5}}),
        Saved(30, {"valid": {"loss": 0.2, "accuracy": 0.6}}),
    ]
    by_loss, by_accuracy = KeepBest("loss", number=3), KeepBest("accuracy", direction="highest")

    assert strategies.best(AnyOf((KeepLast(1), by_loss, by_accuracy)), history) == history[1]
    assert strategies.best(AnyOf((by_accuracy, by_loss)), history) == history[0]
    assert strategies.best(by_loss, []) is None and strategies.best(KeepLast(1), history) is None


def test_best_is_by_the_metric_and_the_split_that_are_named():
    both = [
        Saved(
            10, {"train": {"loss": 0.1, "accuracy": 0.2}, "valid": {"loss": 0.9, "accuracy": 0.3}}
        ),
        Saved(
            20, {"train": {"loss": 0.2, "accuracy": 0.9}, "valid": {"loss": 0.8, "accuracy": 0.5}}
        ),
        Saved(
            30, {"train": {"loss": 0.3, "accuracy": 0.1}, "valid": {"loss": 0.9, "accuracy": 0.7}}
        ),
    ]
    assert KeepBest("loss")(both) == {"step-20"}
    assert KeepBest("loss", split="train")(both) == {"step-10"}
    assert KeepBest("accuracy", direction="highest")(both) == {"step-30"}
    assert KeepBest("accuracy", split="train", direction="highest")(both) == {"step-20"}
    assert KeepBest("loss", split="test")(both) == set()


@pytest.mark.parametrize("losses, kept", [
    ((0.5,), {10}), ((0.5, 0.4), {10, 20}), ((0.5, 0.4, 0.9), {20, 30}),
    ((0.5, 0.4, 0.9, 0.8), {20, 30, 40}), ((0.5, 0.4, 0.9, 0.8, 0.3), {40, 50}),
])  # fmt: skip
def test_the_last_two_and_the_best_stay_as_epochs_go_by(losses, kept):
    assert last_and_best(last=2, metric="loss", split="valid", direction="lowest")(
        saved(*losses)
    ) == steps(kept)


def test_the_best_is_by_the_metric_split_and_direction_that_are_given():
    settings = {"metric": "accuracy", "split": "night", "direction": "highest"}
    expected = AnyOf((KeepLast(2), KeepBest(**settings)))
    assert last_and_best(last=2, **settings) == expected


@pytest.mark.parametrize(
    "every, updates, kept",
    [
        (100, (), set()),
        (100, (99,), set()),
        (100, (100,), {100}),
        (100, (40, 80, 120, 160, 200, 240, 340, 380), {120, 200, 340}),  # at or after 100, 200, 300
        (100, (40, 350, 390, 420), {350, 420}),  # none between 100 and 300
        (1, (1, 2, 5), {1, 2, 5}),
    ],
)
def test_the_first_at_or_after_each_multiple_stays(every, updates, kept):
    assert KeepEvery(every)([Saved(number) for number in updates]) == steps(kept)


def test_of_two_at_the_same_updates_the_first_is_the_milestone():
    assert KeepEvery(10)([Saved(10), Saved(10, number=2), Saved(20)]) == {"step-10", "step-20"}
    assert KeepLast(1)([Saved(10), Saved(10, number=2)]) == {"step-10.2"}


STRATEGIES = [
    KeepLast(1),
    KeepLast(3),
    KeepBest("loss"),
    KeepBest("loss", direction="highest"),
    KeepEvery(30),
    KeepBest("loss", number=3),
    AnyOf((KeepLast(2), KeepBest("loss"), KeepEvery(40))),
]


def histories():
    """Twenty runs of random lengths, paces and losses; some checkpoints are in the middle of an
    epoch.
    """
    draw = random.Random(5)
    for _ in range(20):
        updates = itertools.accumulate(draw.randint(1, 25) for _ in range(draw.randint(1, 30)))
        losses = [draw.choice([None, 0.1, 0.2, 0.3, math.nan]) for _ in range(30)]
        yield [
            Saved(n, {} if loss is None else {"valid": {"loss": loss}})
            for n, loss in zip(updates, losses)
        ]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_pruning_as_the_run_goes_keeps_what_pruning_at_its_end_keeps(strategy):
    for history in histories():
        there = []
        for value in history:
            there = [one for one in [*there, value] if one.name in strategy([*there, value])]
        assert {one.name for one in there} == strategy(history)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_only_what_is_there_is_kept(strategy):
    for history in histories():
        assert strategy(history) <= {one.name for one in history}


def test_a_composition_keeps_the_same_in_any_order():
    for history in histories():
        kept = {
            frozenset(AnyOf(order)(history)) for order in itertools.permutations(STRATEGIES[:5:2])
        }
        assert len(kept) == 1


@pytest.mark.parametrize("make, said", [
    (lambda: KeepLast(0), "number=0: should be greater than or equal to 1 (KeepLast)"),
    (lambda: KeepBest("loss", number=0),
     "number=0: should be greater than or equal to 1 (KeepBest)"),
    (lambda: KeepEvery(-5), "updates=-5: should be greater than or equal to 1 (KeepEvery)"),
    (lambda: KeepBest("loss", direction="up"),
     "direction=up: should be 'lowest' or 'highest' (KeepBest)"),
])  # fmt: skip
def test_a_rule_that_could_keep_nothing_is_refused(make, said):
    assert message_of(ValueError, make) == said
