"""Which parameters an optimizer owns, which a class does not take, and what is not imported on the
way."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from andiron.optim import Optimizer

ROOT = Path(__file__).resolve().parents[3]
IN_TORCH = (
    "SGD Adam AdamW RMSprop Adagrad NAdam RAdam Adamax Adadelta ASGD Adafactor Rprop LBFGS Muon SparseAdam".split()  # all
)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 9), nn.LayerNorm(9), nn.Linear(9, 4))


def test_every_class_of_torch_is_tried_below() -> None:
    classes = {name for name, value in vars(torch.optim).items() if isinstance(value, type)}
    assert classes - {"Optimizer"} == {*IN_TORCH}


def test_it_owns_the_parameters_named_in_the_models_order() -> None:
    optimizer = Optimizer(torch.optim.Adam, network(), names=["2.bias", "0.weight"])
    assert list(optimizer.parameters) == ["0.weight", "2.bias"]


def test_it_owns_a_parameter_that_is_named_even_while_it_is_frozen() -> None:
    model = network().requires_grad_(False)
    assert list(Optimizer(torch.optim.Adam, model, names={"2.bias"}).parameters) == ["2.bias"]


def test_names_that_no_parameter_has_are_told_with_the_nearest() -> None:
    with pytest.raises(ValueError) as error:
        Optimizer(torch.optim.Adam, network(), names=["0.wieght", "head", "2.bias"])
    assert (
        str(error.value)
        == "Sequential has no parameter named '0.wieght'; did you mean '0.weight'?, 'head'"
    )


def test_no_names_is_nothing_to_own() -> None:
    with pytest.raises(ValueError, match="Sequential has no trainable parameter for Adam to own"):
        Optimizer(torch.optim.Adam, network(), names=[])


def test_refused_parameters_are_listed_with_shapes_and_reason() -> None:
    with pytest.raises(ValueError) as error:
        Optimizer(torch.optim.Muon, network())
    assert str(error.value) == (
        "torch.optim.Muon does not take '0.bias' [9], '1.weight' [9], '1.bias' [9], '2.bias' [4]; give them to another "
        "group (Muon only supports 2D parameters whereas we found a parameter with size: torch.Size([9]))"
    )


def test_a_class_that_takes_none_of_them_is_told_apart_from_wrong_options() -> None:
    with pytest.raises(
        ValueError,
        match=r"^torch.optim.Muon does not take '1.weight' \[9\], '1.bias' \[9\]; give them",
    ):
        Optimizer(torch.optim.Muon, network(), names=["1.weight", "1.bias"])


@pytest.mark.parametrize("name, options, said", [
    ("SGD", {"momentum": -1.0}, "Invalid momentum value: -1.0"),
    ("Muon", {"momentum": -1.0}, "momentum should be >= 0 but is: -1.0"),
])  # fmt: skip
def test_wrong_options_are_told_in_torchs_words(
    name: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError) as error:
        Optimizer(getattr(torch.optim, name), network(), **options)
    assert str(error.value) == said


def test_what_it_does_not_take_may_be_left_to_others() -> None:
    optimizer = Optimizer(torch.optim.Muon, network(), names=["0.weight", "2.weight"])
    assert list(optimizer.parameters) == ["0.weight", "2.weight"]


def test_no_optimizer_imports_dynamo_on_the_way_to_its_first_step() -> None:
    # torch's own methods import it, for 1.3 s; a fresh process can tell
    program = f"""
import sys, torch, lion_pytorch, schedulefree
from andiron import gradients
from andiron.optim import Optimizer
class Mine(torch.optim.Adam):
    pass
for optimizer_class in [*(getattr(torch.optim, name) for name in {IN_TORCH}), Mine, lion_pytorch.Lion,
                        schedulefree.AdamWScheduleFree]:
    is_sparse = optimizer_class is torch.optim.SparseAdam
    model = torch.nn.Embedding(5, 2, sparse=True) if is_sparse else torch.nn.Linear(3, 2, bias=False)
    inputs = torch.tensor([1, 2, 1]) if is_sparse else torch.ones(5, 3)
    taken = lambda: gradients.backward(model(inputs).square().sum(), model)
    optimizer = Optimizer(optimizer_class, model)
    for update in range(2):
        optimizer.step(0.1, model, taken(), taken)
    optimizer.load_state_dict(optimizer.state_dict())
    print(optimizer.name, "torch._dynamo" in sys.modules)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == len(IN_TORCH) + 3
    assert [line for line in lines if not line.endswith(" False")] == []
