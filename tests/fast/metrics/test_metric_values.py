"""Values of metrics of one's own: numbers of any kind; anything else is refused."""

import numpy as np
import pytest
import torch

from andiron import errors
from andiron.metrics import Tally
from refusals import message_of


class Given:
    """Gives one value, whatever was counted."""

    name, higher_is_better = "mine", True

    def __init__(self, value):
        self.given = value

    def __call__(self, item):
        return (item,)

    def value(self, sums):
        return self.given


def measured(value):
    tally = Tally([Given(value)])
    tally.add(torch.ones(2))
    return tally.close_epoch(), tally.images


@pytest.mark.parametrize(
    "half", [torch.tensor(0.5).double(), np.float32(0.5), np.float64(0.5), np.array(0.5)]
)
def test_a_number_may_be_a_tensor_or_numpys(half):
    assert measured(half) == ({"mine": 0.5}, {})
    values, _ = measured({"half": half, "three": np.int64(3)})
    assert values == {"mine/half": 0.5, "mine/three": 3}
    assert {type(value) for value in values.values()} == {float, int}


@pytest.mark.parametrize("value", [torch.ones(1), torch.ones(3, 4, 4), [0.5], np.ones(2), b"x"])
def test_a_value_that_nothing_can_show_is_refused(value):
    for entry in (value, {"part": value}):
        message = message_of(errors.MismatchError, measured, entry)
        assert message.startswith("metrics.mine: its value is ")
        assert "; should be a number, " in message
