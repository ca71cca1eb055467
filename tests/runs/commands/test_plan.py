"""A plan of a run, compared with numbers computed by hand."""

import re

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn

from andiron.schedules import Cosine
from andiron.wings.runs import plan
from in_process import called
from proofs.lab_parts import layer_table

WEIGHTS = 4 * (64 * 512 + 512 + 512 * 256 + 256 + 256 * 10 + 10)  # bytes of the default MLP


def planned_in(folder, *overrides):
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("COLUMNS", "160")
        return called(plan.main, f"hydra.run.dir={folder}", *overrides)


def cells(text):
    return [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in text.splitlines()
        if "│" in line
    ]


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    ended = planned_in(
        folder,
        "optimizer=adam",
        "scheduler=cosine",
        "grads_accumulation=4",
        "num_epochs=5",
        "+param_groups.head={match:{tag:last},lr_scale:10}",
        "averages=ema",
    )
    assert (ended.code, ended.errors) == (0, "")
    return folder, ended.output


def test_the_steps_follow_the_data_and_the_short_last_group(planned):
    rows = {row[0]: row[1] for row in cells(planned[1]) if len(row) == 2}
    assert [
        rows[name]
        for name in ("training samples", "batches per epoch", "samples in the last batch")
    ] == ["1,295", "21", "15"]
    assert [
        rows[name]
        for name in ("updates per epoch", "batches in the last update", "epochs", "updates")
    ] == ["6", "1", "5", "30"]


@pytest.mark.usefixtures("needs_lab")
def test_each_layer_has_its_shape_parameters_operations_and_memory(planned):
    rows = {row[0]: row[1:] for row in cells(planned[1]) if len(row) == 5}
    operations = 2 * 64 * 64 * 512  # a multiplication and an addition for each weight and sample
    assert operations == 4_194_304
    assert rows["layers.1 Linear"] == ["64x512", "33,280", "4.2 M", "128.0 KiB"]
    assert rows["layers.2 ReLU"] == ["64x512", "0", "0", "128.0 KiB"]
    assert rows["in all"][1] == f"{WEIGHTS // 4:,}"


def test_all_layers_of_a_transformer_are_counted_with_padding_too():
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    model, is_padding = nn.TransformerEncoder(layer, 1).eval(), torch.tensor([[False, True]])
    inputs = torch.ones(1, 2, 4)
    rows = layer_table.layers(model, lambda: model(inputs, src_key_padding_mask=is_padding))
    counted = sum(row.parameters for row in rows)
    assert counted == sum(parameter.numel() for parameter in model.parameters())
    assert torch.backends.mha.get_fastpath_enabled()


def test_the_rates_of_each_group_follow_its_schedule(planned):
    schedule = Cosine(1e-3, 30)
    rows = [row for row in cells(planned[1]) if len(row) == 3 and re.fullmatch(r"\d+", row[0])]
    assert [int(row[0]) for row in rows] == [0, 3, 6, 9, 12, 14, 17, 20, 23, 26, 29]
    for update, head, base in rows:
        assert (head, base) == (f"{10 * schedule(int(update)):.3g}", f"{schedule(int(update)):.3g}")
    events = EventAccumulator(str(planned[0] / "tensorboard" / "plan")).Reload()
    assert [event.step for event in events.Scalars("lr/head")] == list(range(30))


def test_the_memory_is_counted_to_the_byte(planned):
    rows = {row[0]: row[1] for row in cells(planned[1]) if len(row) == 2}
    state = 2 * WEIGHTS + 6 * 4  # Adam: two moments of each weight, and a counter a tensor
    for name, size in (
        ("weights", WEIGHTS),
        ("gradients", WEIGHTS),
        ("optimizer state", state),
        ("averages", WEIGHTS),
    ):
        assert rows[name] == f"{size / 2**20:,.2f} MiB"
    # what linear layers and ReLU keep of a batch of 64
    inputs, hidden = (64 * 64 * 4, 64 * (512 + 256) * 4)
    # the log-probabilities, the targets, two scalars of the loss
    logits = 64 * 10 * 4 + 64 * 8 + 2 * 4
    kept = float(rows["activations saved for backward (per batch)"].removesuffix(" MiB")) * 2**20
    assert kept == pytest.approx(inputs + hidden + logits, abs=0.02 * 2**20)


def test_nothing_is_trained(planned):
    assert [path.name for path in planned[0].iterdir()] == ["tensorboard"]


def test_a_mistake_is_reported_as_train_reports_it(tmp_path):
    ended = planned_in(tmp_path / "plan", "optimizer=muon")
    assert ended.code == 2
    words = "optimizer: torch.optim.Muon does not take 'network.layers.1.bias' [512]"
    assert words in ended.errors


HUNGRY = """import torch
from torch import nn

class Hungry(nn.Sequential):
    def __init__(self, input_shape, num_classes, hidden, dropout):
        super().__init__(nn.Flatten(), nn.Linear(64, num_classes))

    def forward(self, inputs):
        torch.empty(2**60 if self.training and len(inputs) > 20 else 1)
        return super().forward(inputs)
"""


def test_the_number_of_slices_that_fits_in_memory_is_named(tmp_path, monkeypatch):
    (tmp_path / "hungry_parts.py").write_text(HUNGRY)
    monkeypatch.syspath_prepend(tmp_path)
    own = ("model._target_=hungry_parts.Hungry", "batch_size=64")
    ended = planned_in(tmp_path / "plan", *own)
    assert (ended.code, ended.errors) == (0, "")
    assert "an update is out of memory; give slices=4" in ended.output
    assert "memory, with slices=4" in ended.output
    assert "out of memory with" not in planned_in(tmp_path / "again", *own, "slices=8").output
