"""What an optimizer's first step imports."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_constructing_and_stepping_import_no_dynamo() -> None:
    # torch's own optimizers import it on the way to their first step, for 1.3 s; a fresh process
    # can tell
    program = """
import sys, torch
from andiron import gradients
from andiron.optim import Optimizer
for name in ("Adam", "AdamW", "SGD", "RMSprop", "Adagrad"):
    for options in ({}, {"foreach": False}):
        model = torch.nn.Linear(3, 2)
        optimizer = Optimizer(getattr(torch.optim, name), model, **options)
        for update in range(2):
            optimizer.step(0.1, model, gradients.backward(model(torch.ones(5, 3)).sum(), model))
        optimizer.load_state_dict(optimizer.state_dict())
        print(name, options, "torch._dynamo" in sys.modules)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 10
    assert [line for line in lines if not line.endswith(" False")] == []
