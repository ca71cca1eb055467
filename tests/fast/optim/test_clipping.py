"""How a config says which clipping."""

import pytest
import torch
from torch import nn

from andiron import gradients
from andiron.gradients import Gradients
from andiron.optim import clipping


def found():
    return Gradients(
        {"weight": torch.tensor([3.0, 4.0]), "bias": torch.tensor([0.5])}, nn.Linear(2, 1)
    )


@pytest.mark.parametrize(
    "value, clip",
    [
        (0.7, gradients.clip_by_global_norm),
        ({"global_norm": 0.7}, gradients.clip_by_global_norm),
        ({"norm": 0.7}, gradients.clip_by_norm),
        ({"value": 0.7}, gradients.clip_by_value),
    ],
)
def test_a_value_names_its_clipping(value, clip):
    clipped, expected = clipping.from_value(value)(found()), clip(found(), 0.7)
    assert all(torch.equal(clipped[name], expected[name]) for name in ("weight", "bias"))


@pytest.mark.parametrize("value", [{"nrom": 1.0}, {}, {"norm": 1.0, "value": 1.0}])
def test_an_unknown_kind_is_told_with_the_known(value):
    with pytest.raises(
        ValueError, match="should be a number, or one of global_norm, norm, value with its limit"
    ):
        clipping.from_value(value)


@pytest.mark.parametrize("value", [0.0, -1, {"norm": 0.0}])
def test_a_limit_is_positive(value):
    with pytest.raises(
        ValueError, match="the limit should be greater than 0; leave clip out to have none"
    ):
        clipping.from_value(value)
