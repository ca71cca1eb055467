"""Improvements on the best value so far, as tables and laws."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andiron.plain.improvement import is_better, measured

NUMBERS = st.floats(-1e6, 1e6)


@pytest.mark.parametrize(
    "value, best, margin, lowest, highest",
    [
        (1.0, 1.0, 0, False, False),
        (0.5, 1.0, 0, True, False),
        (0.5, 1.0, 0.5, False, False),  # by more than the margin, not by as much
        (0.25, 1.0, 0.5, True, False),
        (1.75, 1.0, 0.5, False, True),
        (-1.25, -1.0, 0.5, False, False),
        (-1.75, -1.0, 0.5, True, False),
        (-0.25, -1.0, 0.5, False, True),
    ],
)
def test_an_absolute_margin_is_added_to_the_best_or_taken_from_it(
    value, best, margin, lowest, highest
):
    assert is_better(value, best, "lowest", margin=margin) is lowest
    assert is_better(value, best, "highest", margin=margin) is highest


@pytest.mark.parametrize(
    "value, best, lowest, highest",
    [
        (2.0, 4.0, False, False),  # the margin is half of the best
        (1.75, 4.0, True, False),
        (6.25, 4.0, False, True),
        (-6.0, -4.0, False, False),
        (-6.25, -4.0, True, False),
        (-1.75, -4.0, False, True),
        (-0.25, 0.0, True, False),  # half of nothing
        (0.25, 0.0, False, True),
    ],
)
def test_a_relative_margin_is_a_part_of_the_best_on_the_right_side_of_it(
    value, best, lowest, highest
):
    assert is_better(value, best, "lowest", margin=0.5, is_relative=True) is lowest
    assert is_better(value, best, "highest", margin=0.5, is_relative=True) is highest


@pytest.mark.parametrize("direction", ["lowest", "highest"])
def test_the_first_finite_value_beats_none_and_a_non_finite_one_never(direction):
    assert is_better(7.0, None, direction, margin=3.0)
    for value in (math.nan, math.inf, -math.inf):
        assert not is_better(value, None, direction)
        assert not is_better(value, 0.0, direction)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(value=NUMBERS, best=NUMBERS, margin=st.floats(0, 0.9), is_relative=st.booleans())
def test_the_directions_mirror_each_other(value, best, margin, is_relative):
    lowest = is_better(value, best, "lowest", margin=margin, is_relative=is_relative)

    assert lowest == is_better(-value, -best, "highest", margin=margin, is_relative=is_relative)
    assert not (lowest and is_better(best, value, "lowest", margin=margin, is_relative=is_relative))


def test_what_was_not_measured_is_answered_by_what_was():
    values = {"train": {"loss": 0.25}, "valid": {"loss": 0.5, "accuracy": 0.75}}

    assert measured(values, "valid", "accuracy", waiting="it") == 0.75
    with pytest.raises(KeyError) as raised:
        measured(values, "valid", "auroc", waiting="early stopping")
    assert raised.value.args[0] == (
        "early stopping needs valid/auroc, which is not measured; available: train/loss, "
        "valid/loss, valid/accuracy; name one of these as split and metric"
    )
    with pytest.raises(KeyError, match="available: nothing;"):
        measured({}, "valid", "loss", waiting="it")
