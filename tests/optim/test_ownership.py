"""Who owns which parameter, as it is recorded."""

import json

import torch
from torch import nn

from andiron.optim import Optimizer, ownership


def groups():
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1, bias=False))
    model[0].bias.requires_grad_(False)
    return ownership.param_groups(Optimizer(torch.optim.SGD, model, momentum=0.5), 0.25)


def test_every_trainable_parameter_has_its_owner_with_its_options():
    (group,) = groups().values()
    assert group["parameters"] == {"0.weight": [2, 3], "2.weight": [1, 2]}
    assert (group["num_tensors"], group["num_parameters"], group["lr"]) == (2, 8, 0.25)
    assert (group["optimizer"], group["options"]["momentum"], group["options"]["fused"]) == ("torch.optim.SGD", 0.5, True)
    assert json.loads(json.dumps(groups())) == groups()


def test_the_page_has_a_row_a_parameter():
    assert ownership.as_markdown(groups()).splitlines()[2:] == [
        "| base | torch.optim.SGD | 0.25 | 0.weight | [2, 3] |",
        "| base | torch.optim.SGD | 0.25 | 2.weight | [1, 2] |",
    ]
