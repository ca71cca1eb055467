"""Tensors of a network that do not train or are in no checkpoint are named."""

import pytest
import torch
from torch import nn

from andiron.data import ArrayBatcher, ArrayDataset, DataLoader
from andiron.learner import LearnerBuilder
from andiron.metrics import Loss
from andiron.tasks import Classifier

pytestmark = pytest.mark.filterwarnings("ignore")


class Network(nn.Module):
    """Nothing of it is named."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)
        self.rate, self.label, self.teacher = 0.5, "a", [nn.Linear(4, 6).requires_grad_(False)]
        self.same = {"first": self.first}
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("mask", torch.ones(4), persistent=False)

    def forward(self, inputs):
        self.count += 1
        return self.last(self.first(inputs * self.mask))


class Listed(Network):
    def __init__(self):
        super().__init__()
        self.layers, self.shift = [nn.Linear(4, 4)], torch.zeros(4, requires_grad=True)
        self.named = {"a": nn.Linear(4, 4)}

    def forward(self, inputs):
        return super().forward(self.named["a"](self.layers[0](inputs)) + self.shift)


class Detached(Network):
    def forward(self, inputs):
        return self.last(self.first(inputs).detach())


class Annealed(Network):
    def __init__(self):
        super().__init__()
        self.mean = torch.zeros(4)

    def forward(self, inputs):
        if self.training:
            self.rate *= 0.9
            self.mean = self.mean / 2 + inputs.mean(0).detach() / 2
            self.mask.mul_(0.9)
        return super().forward(inputs - self.mean) * self.rate


@pytest.mark.parametrize(
    ("network", "names", "said"),
    [
        (Network, [], ""),
        (Listed, ["layers", "shift", "named"], "tensors in no module"),
        (Detached, ["first.weight", "first.bias"], "no gradient in this update"),
        (Annealed, ["rate", "mean", "mask"], "changed in training, and in no checkpoint"),
    ],
)
def test_tensors_that_do_not_train_or_are_not_saved_are_named_once(network, names, said, caplog):
    train = DataLoader(
        ArrayDataset(torch.randn(9, 4), torch.arange(9) % 3), ArrayBatcher(), batch_size=4
    )
    builder = LearnerBuilder(num_epochs=2).metric_valid_numeric(Loss()).renderer(None).unrecorded()
    model = Classifier(network())
    with builder.build(model, torch.optim.SGD(model.parameters(), 0.1)) as learner:
        learner.fit(train, train)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == bool(said)
    for warning in warnings:
        assert said in warning
        named = warning.partition(":")[0].split(", ") if names else []
        assert sorted(named) == sorted(f"network.{name}" for name in names)
