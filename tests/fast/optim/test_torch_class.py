"""Which parameters an optimizer owns, which a class does not take, and what is not imported on the
way."""


import pytest
import torch
from torch import nn

from andiron.optim import Optimizer
from refusals import message_of

IN_TORCH = (
    # all
    "SGD Adam AdamW RMSprop Adagrad NAdam RAdam Adamax Adadelta ASGD Adafactor Rprop LBFGS "
    "Muon SparseAdam".split()
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


@pytest.mark.parametrize(("name", "options", "said"), [
    ("Adam", {"names": ["0.wieght", "head", "2.bias"]},
     "Sequential has no parameter named '0.wieght'; did you mean '0.weight'?, 'head'"),
    ("Muon", {},
     "torch.optim.Muon does not take '0.bias' [9], '1.weight' [9], '1.bias' [9], '2.bias' [4]; "
     "give them to another group (Muon only supports 2D parameters whereas we found a parameter "
     "with size: torch.Size([9]))"),
    ("Muon", {"names": ["1.weight", "1.bias"]},
     "torch.optim.Muon does not take '1.weight' [9], '1.bias' [9]; give them"),
    ("SGD", {"momentum": -1.0}, "Invalid momentum value: -1.0"),  # in torch's words
    ("Muon", {"momentum": -1.0}, "momentum should be >= 0 but is: -1.0"),
])  # fmt: skip
def test_names_parameters_and_options_that_do_not_fit_are_refused(name, options, said) -> None:
    message = message_of(ValueError, Optimizer, getattr(torch.optim, name), network(), **options)
    assert message.startswith(said)


def test_what_it_does_not_take_may_be_left_to_others() -> None:
    optimizer = Optimizer(torch.optim.Muon, network(), names=["0.weight", "2.weight"])
    assert list(optimizer.parameters) == ["0.weight", "2.weight"]
