"""A run that ended on a non-finite update, and that update replayed."""

import json
import shutil
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from torch import nn

from andiron.models import activation_checkpointing
from andiron.run_folder import RunFolder
from andiron.shell.run import run_record
from andiron.shell.training import train
from andiron.tasks.criterion import Supervised
from andiron_lab.ask import replay
from andiron_lab.ask.instruments import Update
from andiron_lab.ask.layer_statistics import LayerStatistics
from in_process import called

DIVERGES = ("optimizer=sgd", "lr=3e38", "num_epochs=1", "render=plain")
OPTIONS = {
    "plain": (),
    "dropout": ("model=convnet",),
    "micro-batches and sam": ("model=convnet", "grads_accumulation=3", "sam=0.05"),
    "fp16": ("precision=fp16", "lr=1e30"),
    "groups": ("param_groups=layerwise",),
    "slices": ("slices=4",),
}


def replayed(folder):
    return called(replay.main, folder)


def failed_run(folder, *options):
    """The folder of the non-finite update that ended a run."""
    ended = called(train.main, f"hydra.run.dir={folder}", *DIVERGES, *options)
    assert ended.code == 1
    assert "was not applied" in ended.errors
    (left,) = (folder / "nonfinite").iterdir()
    assert f"replay {left}` runs the step again" in ended.errors
    assert json.loads((folder / "status.json").read_text())["status"] == "failed"
    return left


@pytest.mark.parametrize("name", OPTIONS)
def test_a_replay_is_bit_exact_and_names_the_first_non_finite_module(tmp_path, name):
    left = failed_run(tmp_path / "run", *OPTIONS[name])
    ended = replayed(left)
    assert (ended.code, ended.errors) == (0, "")
    lines = ended.output.splitlines()
    assert lines[0].startswith("update ") and "(epoch 1, batch " in lines[0]
    assert lines[-1] == "the same gradients as in the run, bit for bit"
    assert (
        lines[2].startswith("first output of nan or inf: network.")
        or lines[2] == "every module's output is finite"
    )


def test_a_replay_does_not_read_the_weights_that_the_run_started_from(finished_digits, tmp_path):
    weights = shutil.copy(finished_digits / "model.safetensors", tmp_path)
    left = failed_run(tmp_path / "run", f"start_from={weights}")
    (tmp_path / "model.safetensors").unlink()
    ended = replayed(left)

    assert (ended.code, ended.errors) == (0, "")


def test_a_replay_has_the_options_and_threads_of_the_session_that_failed(tmp_path, monkeypatch):
    folder, mine = tmp_path / "run", torch.get_num_threads()
    small = "optimizer=sgd", "num_epochs=1", "render=plain"
    assert called(train.main, f"hydra.run.dir={folder}", *small, "slices=2").code == 0
    torch.set_num_threads(had := 2 if mine == 1 else 1)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    changed = "num_epochs=2", "lr=3e38", "batch_size=100", "resume_allow=[lr,batch_size]"
    assert called(train.main, f"resume={folder}", *changed).code == 1
    torch.set_num_threads(mine)
    (left,) = (folder / "nonfinite").iterdir()
    seen, build = [], replay.components.build

    def built(config, *given):
        seen.append((config.batch_size, torch.get_num_threads()))
        return build(config, *given)

    monkeypatch.setattr(replay.components, "build", built)
    ended = replayed(left)
    assert (ended.code, ended.errors) == (0, "")
    assert ended.output.splitlines()[-1] == "the same gradients as in the run, bit for bit"
    assert seen == [(100, had)] and torch.get_num_threads() == mine


def test_other_data_give_other_gradients_and_a_report(tmp_path):
    left = failed_run(tmp_path / "run")
    config = tmp_path / "run" / "config.json"
    changed = json.loads(config.read_text())
    changed["data"]["split_seed"] = 7
    config.write_text(json.dumps(changed))
    refused = replayed(left)
    assert refused.code == 2 and "was changed since the run wrote it" in refused.errors
    assert run_record.accept(RunFolder(tmp_path / "run")) == ["config.json"]
    ended = replayed(left)
    assert ended.code == 1
    assert ended.output.splitlines()[-1].startswith("not the gradients of the run (loss ")


def test_a_damaged_folder_and_one_without_an_update_are_refused(tmp_path):
    left = failed_run(tmp_path / "run")
    shutil.copytree(left, left.parent / "copy")
    (left.parent / "copy" / "model.safetensors").write_bytes(b"nothing")
    damaged = replayed(left.parent / "copy")
    assert damaged.code == 2
    assert "model.safetensors: has 7 bytes, not 669240: damaged; use another" in damaged.errors

    good = tmp_path / "good"
    options = ("num_epochs=1", "render=plain")
    assert called(train.main, f"hydra.run.dir={good}", *options).code == 0
    for folder in (good / "checkpoints" / "step-21", good):  # whose manifest is no checkpoint's
        ended = replayed(folder)
        assert ended.code == 2
        assert "holds no update to replay; name a folder below <run folder>/nonfinite" in (
            ended.errors
        )


def test_an_update_is_shown_by_layer_with_the_bits_of_the_run(tmp_path):
    folder, options = tmp_path / "run", ("num_epochs=2", "checkpoint.last=3", "log_every=4")
    small = "model.hidden=[8]", "model.dropout=0", "batch_size=300", "render=plain"
    assert called(train.main, *small, *options, f"hydra.run.dir={folder}").code == 0
    kinds, into = "gradients,activations,updates,weights", tmp_path / "into"
    asked = folder, "--update", "7", "--show", kinds, "--per-sample", "--into", into

    ended = called(replay.main, *asked, "--json")
    assert ended.code == 0, ended.errors
    answer = json.loads(ended.output)
    rows = {kind: {row["layer"]: row for row in rows} for kind, rows in answer["layers"].items()}
    assert [*rows] == kinds.split(",")
    gradient = rows["gradients"]["network.layers.1.weight"]
    assert 0 < gradient["largest"] <= gradient["norm"] and -1 <= gradient["cosine"] <= 1
    assert 0.9 < rows["weights"]["network.layers.1.weight"]["cosine"] <= 1
    assert rows["activations"]["network.layers.2"]["zeros"] > 0.2  # of ReLU
    assert len(answer["sample_norms"]) == len(answer["samples"][0]) == 300
    mean_is_shorter = sum(norm**2 for norm in answer["sample_norms"]) ** 0.5 > gradient["norm"]
    assert mean_is_shorter and answer["same_bits"]
    assert "logged values have the bits of the run" in answer["comparison"]
    assert list(into.rglob("*tfevents*"))

    lines = called(replay.main, *asked[:3]).output.splitlines()
    assert lines[0].split()[:2] == ["gradients", "norm"] and "have the bits" in lines[-1]
    refused = called(replay.main, folder, "--update", "2", "--debug")
    assert refused.code == 2 and "needs a terminal" in refused.errors


class Scaled(Supervised):
    def __init__(self):
        super().__init__(nn.Sequential(nn.Linear(3, 1)), None)
        self.network[0].bias.requires_grad_(False)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def predict(self, batch):
        return SimpleNamespace(loss=(self.scale * self.network(batch)).square().mean())


def test_statistics_are_of_each_batch_and_trained_weight_and_count_once():
    task, batches, expected = Scaled(), [*torch.randn(2, 4, 3)], []
    for sample in torch.cat(batches):
        task.zero_grad()
        task.predict(sample[None]).loss.backward()
        weights = task.scale, task.network[0].weight
        expected.append(float(torch.stack([weight.grad.norm() for weight in weights]).norm()))
    learner = SimpleNamespace(model=task)
    update = Mock(spec=Update, number=1, learner=learner, batches=batches, gradients={})
    seen = LayerStatistics(1, per_sample=True)
    seen.before(update)
    seen.computed(update)
    assert seen.samples == pytest.approx(expected)

    learner.model = nn.Sequential(nn.Sequential(nn.Linear(3, 2), nn.Sigmoid(), nn.Linear(2, 2)))
    activation_checkpointing.apply(learner.model, "^0$")
    seen.before(update)
    learner.model(batches[0]).square().sum().backward()
    outputs = seen.tensors["activations"]
    assert {name: len(outputs[name]) for name in sorted(outputs)} == {
        name: 8 for name in ("0", "0.0", "0.1", "0.2")
    }
