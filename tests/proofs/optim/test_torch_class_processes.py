"""Imports of constructing an optimizer."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
IN_TORCH = (
    # all
    "SGD Adam AdamW RMSprop Adagrad NAdam RAdam Adamax Adadelta ASGD Adafactor Rprop LBFGS "
    "Muon SparseAdam".split()
)
WITH_FOREACH = ["Adam", "AdamW", "SGD", "RMSprop", "Adagrad"]


def test_no_optimizer_imports_dynamo_on_the_way_to_its_first_step() -> None:
    # torch's own methods import it, for 1.3 s; a fresh process can tell
    program = f"""
import sys, torch, lion_pytorch, schedulefree
from andiron import gradients
from andiron.optim import Optimizer
class Mine(torch.optim.Adam):
    pass
foreign = Mine, lion_pytorch.Lion, schedulefree.AdamWScheduleFree
classes = [*(getattr(torch.optim, name) for name in {IN_TORCH}), *foreign]
plain = [getattr(torch.optim, name) for name in {WITH_FOREACH}]
choices = [*((each, dict()) for each in classes), *((each, dict(foreach=False)) for each in plain)]
for optimizer_class, options in choices:
    is_sparse = optimizer_class is torch.optim.SparseAdam
    dense = torch.nn.Linear(3, 2, bias=False)
    model = torch.nn.Embedding(5, 2, sparse=True) if is_sparse else dense
    inputs = torch.tensor([1, 2, 1]) if is_sparse else torch.ones(5, 3)
    taken = lambda: gradients.backward(model(inputs).square().sum(), model)
    optimizer = Optimizer(optimizer_class, model, **options)
    for update in range(2):
        optimizer.step(0.1, model, taken(), taken)
    optimizer.load_state_dict(optimizer.state_dict())
    print(optimizer.name, options, "torch._dynamo" in sys.modules)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == len(IN_TORCH) + len(WITH_FOREACH) + 3
    assert [line for line in lines if not line.endswith(" False")] == []
