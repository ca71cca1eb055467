"""An exported program: its preprocessing is that of the run, and its outputs are compared."""

import logging
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from andiron import errors
from andiron.data import ArrayBatcher, ImageBatcher, RawBatch
from andiron.data.on_disk.text_file import TextBatcher
from andiron.data.splitting.described import Described
from andiron.wings.trained.exports import checked_export, programs
from andiron.wings.trained.exports.checked_export import measured, TOLERANCE

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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("batcher", "stored"), CASES)
def test_it_gives_the_inputs_of_the_batcher(batcher, stored, tmp_path):
    expected = batcher(RawBatch(stored, torch.zeros(5)), torch.device("cpu")).inputs
    module = checked_export.Preprocessed(batcher, nn.Flatten(0))
    written = programs.torch_program(module, stored, {}, tmp_path / "program")(stored)
    assert written.dtype == expected.dtype and torch.equal(written, expected.flatten())


INPUTS = torch.tensor([[-2.0], [1.0], [0.5]])


def agreement(program):
    return measured(program, [INPUTS[:1], INPUTS], [INPUTS[:1], INPUTS], "model.pt2")


def test_the_largest_difference_over_all_batches_is_reported():
    result = agreement(lambda inputs: inputs + 2.0**-14 * (inputs == 1))
    assert (result.largest_difference, result.largest_output) == (2.0**-14, 2)
    assert str(result) == "largest difference 6.1e-05, of outputs up to 2 (batches of 1 and 3)"


@pytest.mark.parametrize(("program", "message"), [
    (lambda inputs: inputs + 4 * TOLERANCE, "model.pt2: largest difference 0.0004, of"),
    (lambda inputs: inputs / inputs.isfinite().logical_not(), "model.pt2: largest difference"),
    (lambda inputs: inputs * float("nan"), "model.pt2: largest difference nan, of"),
    (lambda inputs: inputs[:, 0], "model.pt2: its outputs are [1], where"),
])  # fmt: skip
def test_other_outputs_are_refused(program, message):
    error = message_of(errors.DataError, agreement, program)
    assert error.startswith(message)
    assert "; nothing was written" in error


class Forecaster(nn.Module):
    only_input = "past"


def test_a_task_of_ones_own_names_the_field_that_is_exported():
    described = Described("series", lambda raw, device: raw, {}, 5)
    stored = {"past": INPUTS, "mask": INPUTS > 0}
    raw, inputs = checked_export._inputs(Forecaster(), described, stored, "torch")
    assert raw is INPUTS and inputs is INPUTS
    call = partial(checked_export._inputs, nn.Linear(1, 1), described, stored)
    message = message_of(errors.DataError, call, "onnx")
    assert "have no tensor inputs" in message and "`only_input`" in message
    assert "--format safetensors writes the weights of any" in message
    assert [call(kind) for kind in checked_export.WEIGHTS] == [(stored, stored)] * 2


class Sized(nn.Module):
    def __init__(self, flat):
        super().__init__()
        self.flat, self.last = flat, nn.LSTM(8, 3, batch_first=True)

    def forward(self, inputs):
        return self.last(self.flat(inputs))[0].mean(1)


SIZES = {
    "len": lambda x: x.flatten(1).view(len(x), 8, 8),
    "int": lambda x: x.reshape(int(x.shape[0]), 8, 8),
    "size": lambda x: x.view(x.size(0), -1, 8),
    "len of a part": lambda x: x.view(len(x[:, 0]), 8, 8),
    "list": lambda x: x.view([len(x), 8, 8]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["torch", "onnx"])
@pytest.mark.parametrize("flat", SIZES.values(), ids=SIZES)
def test_a_network_that_asks_for_the_number_of_samples_is_exported(flat, kind, tmp_path):
    if kind == "onnx":
        pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    network, inputs = Sized(flat).eval(), torch.randn(5, 1, 8, 8)
    write = programs.torch_program if kind == "torch" else programs.onnx_program
    program = write(network, inputs[:2], {0: ("batch", None)}, tmp_path / "program")
    for size in 1, 5:
        expected = network(inputs[:size]).detach()
        torch.testing.assert_close(program(inputs[:size]), expected, rtol=0, atol=1e-6)
    assert str(Path(__file__).parent).encode() not in (tmp_path / "program").read_bytes()


@pytest.mark.filterwarnings("ignore")
def test_a_network_with_a_loop_over_samples_is_refused_with_what_to_write(tmp_path, caplog):
    class Looped(nn.Module):
        def forward(self, inputs):
            return torch.stack([inputs[number] for number in range(len(inputs))])

    call = partial(programs.torch_program, Looped(), INPUTS[:2], {0: ("batch", None)})
    assert "x.shape[0], not len(x)" in message_of(errors.DataError, call, tmp_path / "program")
    assert "Error while" not in caplog.text and logging.root.manager.disable == 0
