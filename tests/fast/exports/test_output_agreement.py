"""An export whose outputs differ is not written."""

import pytest
import torch

from andiron import errors
from andiron.wings.trained.exports.output_agreement import TOLERANCE, measured

INPUTS = torch.tensor([[-2.0], [1.0], [0.5]])


def agreement(program):
    return measured(program, [INPUTS[:1], INPUTS], [INPUTS[:1], INPUTS], "model.pt2")


def test_the_largest_difference_over_all_batches_is_reported():
    found = agreement(lambda inputs: inputs + 2.0**-14 * (inputs == 1))
    assert (found.largest_difference, found.largest_output) == (2.0**-14, 2)
    assert str(found) == "largest difference 6.1e-05, of outputs up to 2 (batches of 1 and 3)"


@pytest.mark.parametrize(("program", "message"), [
    (lambda inputs: inputs + 4 * TOLERANCE, "model.pt2: largest difference 0.0004, of"),
    (lambda inputs: inputs / inputs.isfinite().logical_not(), "model.pt2: largest difference"),
    (lambda inputs: inputs * float("nan"), "model.pt2: largest difference nan, of"),
    (lambda inputs: inputs[:, 0], "model.pt2: its outputs are [1], where"),
])  # fmt: skip
def test_other_outputs_are_refused(program, message):
    with pytest.raises(errors.DataError) as error:
        agreement(program)
    assert str(error.value).startswith(message)
    assert str(error.value).endswith("nothing was written")
