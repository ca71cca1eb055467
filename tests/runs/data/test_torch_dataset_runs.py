"""A run on the user's own torch data set, from the command line: the random transforms repeat."""

import json
import sys

import pytest
import safetensors.torch
import torch
from in_process import called

from andiron.shell.training import train
from proofs.lab_parts import samples

OWN = """import random
import torch

class Blobs(torch.utils.data.Dataset):
    classes = ["low", "high"]

    def __init__(self, size, seed=0):
        self.targets = [number % 2 for number in range(size)]
        noise = torch.randn(size, 3, generator=torch.Generator().manual_seed(seed))
        self.points = noise + torch.tensor(self.targets)[:, None]

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        return self.points[index] * (1 + random.random()), self.targets[index]

    def sample_name(self, index):
        return f"blob {self.points[index, 0]:.4f}"
"""
NODE = """_target_: andiron.data.torch_dataset
train: {_target_: my_blobs.Blobs, size: 103}
test: {_target_: my_blobs.Blobs, size: 20, seed: 1}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "my_blobs.py").write_text(OWN)
    (tmp_path / "conf" / "data").mkdir(parents=True)
    (tmp_path / "conf" / "data" / "blobs.yaml").write_text(NODE)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def weights(project, name, *arguments):
    own = ("--config-dir", "conf", "render=plain")
    ended = called(train.main, *own, *arguments, cwd=project)
    assert ended.code == 0, ended.errors
    return safetensors.torch.load_file(project / name / "model.safetensors")


def test_a_resumed_run_and_one_with_workers_give_the_same_bits(project):
    new = ("data=blobs", "batch_size=16", "model.hidden=[8]")
    whole = weights(project, "whole", *new, "hydra.run.dir=whole", "num_epochs=3")
    weights(project, "part", *new, "hydra.run.dir=part", "num_epochs=1", "num_workers=1")
    resumed = weights(project, "part", "resume=part", "num_epochs=3", "num_workers=0")

    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    facts = json.loads((project / "whole" / "data.json").read_text())
    assert (facts["input_shape"], facts["class_names"]) == ([3], ["low", "high"])


def test_samples_have_the_names_that_the_data_set_gives_them(project):
    weights(project, "run", "data=blobs", "model.hidden=[8]", "num_epochs=1", "hydra.run.dir=run")
    words = ("run", "--update", "1", "--from-start", "--json", "--trust", "my_blobs")
    ended = called(samples.main, *words, cwd=project)
    assert ended.code == 0, ended.errors
    blobs = sys.modules["my_blobs"].Blobs(103)
    names = {blobs.sample_name(index) for index in range(103)}
    told = json.loads(ended.output)["updates"][0]["samples"]
    assert len({row["name"] for row in told} & names) == len(told) == 64
    assert [row["unrecorded"] for row in told] == 64 * [["Blobs"]]


def test_samples_with_their_channels_last_are_named(tmp_path):
    for name, shape in (("first", (3, 8, 8)), ("last", (8, 8, 3)), ("grey", (9, 9, 1))):
        arrays = {"inputs": torch.zeros(40, *shape), "targets": torch.arange(40) % 2}
        safetensors.torch.save_file(arrays, tmp_path / f"{name}.safetensors")
        options = f"data.path={name}.safetensors", "model.hidden=[8]", "num_epochs=1"
        ended = called(train.main, "data=safetensors", *options, "render=plain", cwd=tmp_path)
        assert ended.code == 0, ended.errors
        is_named = f"samples of shape {[*shape]} look like pictures" in ended.errors + ended.output
        assert is_named == (name != "first")
