"""An exported program: its preprocessing is that of the run, and its outputs are compared."""

from functools import partial

import pytest
import torch
from torch import nn

from andiron import errors
from andiron.data import ArrayBatcher, ImageBatcher, RawBatch
from andiron.data.on_disk.text_file import TextBatcher
from andiron.data.splitting.described import Described
from andiron.wings.trained.exports import checked_export
from andiron.wings.trained.exports.output_agreement import measured, TOLERANCE
from andiron.wings.trained.exports.stored_inputs import preprocessing

from refusals import message_of

PIXELS = torch.randint(256, (5, 3, 4, 2), dtype=torch.uint8)
CASES = [
    (ImageBatcher(0.3, 0.4), PIXELS),
    (ImageBatcher((0.1, 0.2, 0.3), (0.5, 0.6, 0.7), channels_last=True), PIXELS),
    (ImageBatcher(0.3, (0.5, 0.6, 0.7), scale=16.0), PIXELS.half()),
    (ArrayBatcher((1.0, -20.0, 3.0), (0.5, 10.0, 7.0)), torch.randn(5, 3).double() * 9),
    (ArrayBatcher(), PIXELS),
    (ArrayBatcher((1.0,), (2.0,)), torch.randn(5)),
    (ArrayBatcher((1.0,), (2.0,)), torch.arange(15, dtype=torch.int16).view(5, 3)),
    (TextBatcher(), torch.arange(15, dtype=torch.int64).view(5, 3)),
]


@pytest.mark.parametrize(("batcher", "stored"), CASES)
def test_it_gives_the_inputs_of_the_batcher(batcher, stored):
    expected = batcher(RawBatch(stored, torch.zeros(5)), torch.device("cpu")).inputs
    found = preprocessing(batcher, stored)(stored)
    assert found.dtype == expected.dtype
    # a float32 slope and offset are off by half a unit each, and so is each of two operations
    torch.testing.assert_close(found, expected, rtol=3e-7, atol=1e-6)


def test_a_batcher_of_the_users_own_is_refused():
    assert message_of(errors.DataError, preprocessing, lambda raw, device: raw, PIXELS) == (
        "function: your own batcher is not exported; leave out --preprocessing"
    )


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
    error = message_of(errors.DataError, agreement, program)
    assert error.startswith(message)
    assert error.endswith("nothing was written")


class Forecaster(nn.Module):
    only_input = "past"


def test_a_task_of_ones_own_names_the_field_that_is_exported():
    described = Described("series", lambda raw, device: raw, {}, 5)
    stored = {"past": INPUTS, "mask": INPUTS > 0}
    raw, inputs = checked_export._inputs(Forecaster(), described, stored)
    assert raw is INPUTS and inputs is INPUTS
    call = partial(checked_export._inputs, nn.Linear(1, 1), described, stored)
    message = message_of(errors.DataError, call)
    assert "have no tensor inputs" in message and "`only_input`" in message
