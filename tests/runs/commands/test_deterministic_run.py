"""`deterministic=true` in the command: recorded, resumed, and refused where a kernel lacks."""

import json

import pytest
import torch
from in_process import called

from andiron.shell.training import train

NETWORK = """import torch
from torch import nn

class Putting(nn.Module):
    def __init__(self, input_shape, num_classes):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))

    def forward(self, inputs):
        outputs = self.body(inputs)
        torch.zeros(3).put_(torch.tensor([0]), torch.ones(1))
        return outputs
"""
RUN = ("hydra.run.dir=run", "num_epochs=1", "data=partial", "data.fraction=0.2", "render=plain")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    (tmp_path / "putting_networks.py").write_text(NETWORK)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_deterministic_run_is_on_record_and_leaves_no_setting(here):
    ended = called(train.main, *RUN, "deterministic=true", cwd=here)

    assert ended.code == 0, ended.errors
    assert not torch.are_deterministic_algorithms_enabled()
    for name in ("config.json", "provenance.json"):
        assert json.loads((here / "run" / name).read_text())["deterministic"] is True

    ended = called(train.main, "resume=run", "num_epochs=2", cwd=here)
    assert ended.code == 0, ended.errors


def test_a_network_that_cannot_be_deterministic_is_refused(here):
    network = ("~model", "+model={_target_: putting_networks.Putting}")
    ended = called(train.main, *RUN, *network, "deterministic=true", cwd=here)

    assert ended.code == 1
    assert "deterministic=true: torch has no deterministic kernel for put_" in ended.errors
    assert "deterministic=false" in ended.errors and "Traceback" not in ended.errors
