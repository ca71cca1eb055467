"""Activation checkpointing under torch.compile, and what it imports."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def output_of(program: str) -> str:
    """The output of the program without the checks of shapes, which no compiler can follow."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_importing_it_imports_no_dynamo() -> None:
    program = (
        "import sys; from andiron.models import activation_checkpointing; print('torch._dynamo' "
        "in sys.modules)"
    )
    assert output_of(program) == "False\n"


COMPILED = """
import torch
from torch import nn
from andiron import gradients
from andiron.models import activation_checkpointing
found = []
for recomputes in (False, True):
    torch.manual_seed(0)
    blocks = [
        nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 32), nn.GELU(), nn.Linear(32, 6))
        for _ in range(3)
    ]
    model = nn.Sequential(*blocks)
    if recomputes:
        activation_checkpointing.apply(model, r"^[0-9]$")
        model.compile(backend="aot_eager", fullgraph=True)
    loss = model(torch.randn(7, 6)).square().mean()
    found.append([*gradients.backward(loss, model).values(), *model.buffers()])
print(all(torch.equal(one, other) for one, other in zip(*found, strict=True)))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("preloaded_processes")
def test_compiled_gradients_and_buffers_equal_the_plain_network() -> None:
    assert output_of(COMPILED) == "True\n"
