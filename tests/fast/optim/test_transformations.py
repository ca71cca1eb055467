"""Gradient transformations: their laws, the order of a chain, and what each transformation is
given."""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from andiron import errors, gradients, metrics
from andiron.gradients import Gradients
from andiron.optim import (
    centralise, chained, clip_global_norm, clip_norm, clip_value, transformations,
)  # fmt: skip
from refusals import message_of

CLIPPINGS = [clip_global_norm(0.7), clip_norm(0.7), clip_value(0.3)]


def some(number=0):
    """Gradients of a vector, a matrix, a convolution's weight, and a number."""
    stream = torch.Generator().manual_seed(number)
    shapes = {"bias": (5,), "weight": (3, 5), "kernel": (4, 3, 2, 2), "scale": ()}
    tensors = {name: torch.randn(shape, generator=stream) for name, shape in shapes.items()}
    return Gradients(tensors, nn.Linear(2, 1), torch.tensor(1.5))


def same(one, other):
    return [*one] == [*other] and all(torch.equal(one[name], other[name]) for name in one)


def doubled(actual):
    return actual.replaced({name: 2 * tensor for name, tensor in actual.items()})


def increased(actual, update):
    return actual.replaced({name: tensor + update for name, tensor in actual.items()})


@pytest.mark.parametrize("value, clip", [
    (0.7, gradients.clip_by_global_norm),
    ({"global_norm": 0.7}, gradients.clip_by_global_norm),
    ({"norm": 0.7}, gradients.clip_by_norm),
    ({"value": 0.7}, gradients.clip_by_value),
])  # fmt: skip
def test_the_short_form_names_its_clipping(value, clip):
    assert same(transformations.from_clip(value)(some()), clip(some(), 0.7))


@pytest.mark.parametrize(("value", "words"), [
    *[(value, "should be a number, or one of global_norm, norm, value with its limit")
      for value in ({"nrom": 1.0}, {}, {"norm": 1.0, "value": 1.0})],
    *[(value, "the limit should be greater than 0; leave clip out to have none")
      for value in (0.0, -1, {"norm": 0.0})],
])  # fmt: skip
def test_a_clipping_is_a_known_one_with_a_positive_limit(value, words):
    assert words in message_of(ValueError, transformations.from_clip, value)


@given(st.permutations(["double", "increase", "clip"]), st.integers(0, 9))
def test_a_chain_applies_its_transformations_in_order(order, update):
    known = {"double": doubled, "increase": increased, "clip": clip_value(3.0)}
    expected = some()
    for name in order:
        expected = increased(expected, update) if name == "increase" else known[name](expected)

    assert same(chained([known[name] for name in order], seed=0)(some(), update), expected)


def test_a_chain_of_none_is_none():
    assert chained([], seed=0) is None


def test_what_cannot_change_gradients_is_named():
    chain = chained([metrics.Loss()], seed=0)
    message = message_of(errors.MismatchError, chain, some(), 0)
    assert message.startswith("gradients: Loss cannot change gradients: ")


def test_a_transformation_is_given_what_it_has_parameters_for():
    calls = []

    def plain(actual):
        calls.append(())
        return actual

    def seeded(actual, seed):
        calls.append(("seed", seed))
        return actual

    class Both:
        def __call__(self, actual, *, update, seed):
            calls.append(("both", update, seed))
            return actual

    def scaled(actual, factor, update):
        calls.append((factor, update))
        return actual

    chain = chained([plain, seeded, Both(), partial(scaled, factor=3)], seed=5)
    chain(some(), 7)
    chain(some(), 8)

    seeds = calls[1][1], calls[2][2]
    assert calls[:4] == [(), ("seed", seeds[0]), ("both", 7, seeds[1]), (3, 7)]
    assert calls[4:] == [(), ("seed", seeds[0]), ("both", 8, seeds[1]), (3, 8)]
    assert seeds[0] != seeds[1]


def test_the_loss_stays_with_transformed_gradients():
    chain = chained([*CLIPPINGS, centralise()], seed=0)
    assert chain(some(), 0).loss == 1.5


def test_centralised_gradients_have_means_of_zero_and_vectors_stay():
    result = centralise()(some())
    for name in ("weight", "kernel"):
        rows = result[name].flatten(1)
        assert rows.mean(1).abs().max() < 1e-6  # of numbers near 1, to float32's rounding
        torch.testing.assert_close(rows + some()[name].flatten(1).mean(1, True),
                                   some()[name].flatten(1))  # fmt: skip
    assert all(torch.equal(result[name], some()[name]) for name in ("bias", "scale"))


@pytest.mark.parametrize(
    "transform", [*CLIPPINGS, centralise()], ids=["all", "each", "value", "c"]
)
def test_transformations_leave_their_input_as_it_was(transform):
    result = some()
    chained([transform], seed=0)(result, 0)
    assert same(result, some())
