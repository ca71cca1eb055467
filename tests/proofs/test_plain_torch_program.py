"""A program with a torch DataLoader, Adam and OneCycleLR resumes after SIGKILL, bit for bit."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch

pytestmark = pytest.mark.usefixtures("preloaded_processes")

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import os, signal, sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from andiron import data
from andiron.learner import LearnerBuilder
from andiron.metrics import Accuracy, Loss
from andiron.tasks import Classifier

splits = data.digits(valid=0.1, split_seed=0)
train, valid = (
    TensorDataset(part.inputs.float() / 16, part.targets) for part in (splits.train, splits.valid)
)
torch.manual_seed(0)
network = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.2))
model = Classifier(nn.Sequential(network, nn.Linear(32, 10)))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loader = DataLoader(train, batch_size=64, shuffle=True)
cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=3 * len(loader))
builder = LearnerBuilder(sys.argv[1], num_epochs=3, clip=1.0, resume=True)
builder.metric_valid_numeric(Loss(), Accuracy()).with_file_checkpointer()
with builder.build(model, optimizer, cycle) as learner:
    for step in learner.steps(loader, DataLoader(valid, batch_size=256)):
        if step.updates == int(sys.argv[2]):
            learner.checkpointer.wait()
            os.kill(os.getpid(), signal.SIGKILL)
torch.save(model.state_dict(), sys.argv[1] + "/../" + sys.argv[3])
"""


def run(folder, kill_at, name):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), str(kill_at), name],
        capture_output=True, text=True, timeout=120, cwd=folder.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_killed_run_of_torch_parts_resumes_to_the_weights_of_a_whole_one(tmp_path):
    whole = run(tmp_path / "whole", -1, "whole.pt")
    assert whole.returncode == 0, whole.stderr
    assert "epoch 3/3" in whole.stdout
    assert "DataLoader: a resumed run repeats its order if it draws from torch's" in whole.stderr

    killed = run(tmp_path / "killed", 30, "killed.pt")
    assert killed.returncode == -signal.SIGKILL
    resumed = run(tmp_path / "killed", -1, "killed.pt")
    assert resumed.returncode == 0, resumed.stderr
    assert "epoch 1/3" not in resumed.stdout

    weights = [torch.load(tmp_path / name) for name in ("whole.pt", "killed.pt")]
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())
    values = [
        (tmp_path / name / "checkpoints" / "step-63" / "optimizer.safetensors")
        for name in ("whole", "killed")
    ]
    first, second = map(safetensors.torch.load_file, values)
    assert first.keys() == second.keys()
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())
