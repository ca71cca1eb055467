"""Which checkpoints stay, as tables."""

import pytest

from andiron.checkpoint import Composed, KeepBest, KeepLast, Saved, last_and_best


def saved(*losses, split="valid", metric="loss"):
    """A checkpoint every ten updates; None where nothing was measured."""
    return [
        Saved(10 * number, {split: {metric: loss}} if loss is not None else {})
        for number, loss in enumerate(losses, start=1)
    ]


@pytest.mark.parametrize(
    "number, losses, kept",
    [
        (1, (), set()),
        (1, (0.5,), {10}),
        (1, (0.5, 0.4, 0.9), {30}),
        (2, (0.5,), {10}),
        (2, (0.5, 0.4, 0.9), {20, 30}),
        (5, (0.5, 0.4, 0.9), {10, 20, 30}),
    ],
)
def test_the_last_ones_stay(number, losses, kept):
    assert KeepLast(number)(saved(*losses)) == kept


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
    ],
)
def test_the_best_one_stays(direction, losses, kept):
    assert KeepBest("loss", direction=direction)(saved(*losses)) == kept


def test_best_is_by_the_metric_and_the_split_that_are_named():
    both = [
        Saved(10, {"train": {"loss": 0.1, "accuracy": 0.2}, "valid": {"loss": 0.9, "accuracy": 0.3}}),
        Saved(20, {"train": {"loss": 0.2, "accuracy": 0.9}, "valid": {"loss": 0.8, "accuracy": 0.5}}),
        Saved(30, {"train": {"loss": 0.3, "accuracy": 0.1}, "valid": {"loss": 0.9, "accuracy": 0.7}}),
    ]
    assert KeepBest("loss")(both) == {20}
    assert KeepBest("loss", split="train")(both) == {10}
    assert KeepBest("accuracy", direction="highest")(both) == {30}
    assert KeepBest("accuracy", split="train", direction="highest")(both) == {20}
    assert KeepBest("loss", split="test")(both) == set()


def test_composed_keeps_what_any_of_them_keeps():
    history = saved(0.5, 0.1, 0.7, 0.6)
    assert Composed((KeepLast(1), KeepBest("loss")))(history) == {20, 40}
    assert Composed((KeepBest("loss"), KeepLast(1)))(history) == {20, 40}
    assert Composed((KeepLast(2),))(history) == KeepLast(2)(history)
    assert Composed(())(history) == set()


@pytest.mark.parametrize(
    "losses, kept",
    [
        ((0.5,), {10}),
        ((0.5, 0.4), {10, 20}),
        ((0.5, 0.4, 0.9), {20, 30}),
        ((0.5, 0.4, 0.9, 0.8), {20, 30, 40}),
        ((0.5, 0.4, 0.9, 0.8, 0.3), {40, 50}),
    ],
)
def test_the_last_two_and_the_best_stay_as_epochs_go_by(losses, kept):
    assert last_and_best(last=2, metric="loss", split="valid", direction="lowest")(saved(*losses)) == kept


def test_deciding_again_on_what_stayed_drops_nothing():
    strategy = last_and_best(last=2, metric="loss", split="valid", direction="lowest")
    history = saved(0.5, 0.1, 0.7, 0.6, 0.1, 0.9)
    kept = strategy(history)
    assert strategy([checkpoint for checkpoint in history if checkpoint.updates in kept]) == kept
