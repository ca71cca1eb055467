"""Classes of other packages are one object: constructed with the run's rate, saved as they say.

All classes are in `proofs/held_classes.py`; these are a sample of it, and what it cannot show.
"""

import random

import pytest
import torch
from torch import nn

from andiron import errors
from andiron.data import DataLoader, digits
from andiron.gradients import Gradients, backward
from andiron.learner import LearnerBuilder
from andiron.metrics import Loss
from andiron.models import MLP
from andiron.optim import Optimizer
from andiron.optim.foreign import torch_optimizer
from andiron.schedules import Constant, Warmup
from andiron.tasks import Classifier
from proofs import held_classes

SPLITS = digits(valid=0.1, split_seed=0)
LOADER = DataLoader(SPLITS.valid, SPLITS.batcher, batch_size=30)
SAME = {"lion_pytorch": "Lion", "prodigyopt": "Prodigy"}
REFUSED = {
    "ASGD": "its step sets the rates", "Conda": "state cannot be saved: weight.projector: is",
    "A2Grad": "a group has no learning rate `lr`", "Muon": "Muon does not take a list of",
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module", SAME)
def test_a_sample_of_classes_has_the_bits_of_a_plain_loop(module):
    result = held_classes.outcomes(getattr(pytest.importorskip(module), SAME[module]))
    assert {*result.values()} == {held_classes.SAME}


@pytest.mark.parametrize("name", REFUSED)
def test_a_class_that_cannot_be_held_is_refused_by_the_first_update(name):
    package = pytest.importorskip("pytorch_optimizer")
    model = nn.Linear(3, 2)
    with pytest.raises((errors.MismatchError, ValueError), match=REFUSED[name]):
        optimizer = Optimizer(getattr(package, name), model)
        optimizer.step(0.1, model, backward(model(torch.ones(1, 3)).sum(), model))


class Own(torch.optim.Optimizer):
    """It remembers the rate of its constructor, and draws from generators of its own."""

    def __init__(self, params, lr=1.0, factor=0.1):
        self.made_with, self.random = lr, random.Random(3)
        self.generator = torch.Generator().manual_seed(4)
        super().__init__(params, {"lr": lr, "factor": factor})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                noise = torch.rand(1, generator=self.generator) + self.random.random()
                change = parameter.grad.sign() * group["factor"] * noise
                parameter -= change * group["lr"] * self.made_with


def trained(folder, make, num_epochs, lr, **options):
    torch.manual_seed(0)
    model = Classifier(MLP(SPLITS.input_shape, SPLITS.num_classes, hidden=[8]))
    builder = LearnerBuilder(folder, num_epochs=num_epochs, resume=True, **options)
    builder.renderer(None).metric_valid_numeric(Loss()).with_file_checkpointer()
    with builder.build(model, make(model), lr) as learner:
        learner.fit(LOADER, LOADER)
    return [*model.parameters()]


def test_a_run_constructs_a_class_with_its_peak_and_resumes_with_the_generators(tmp_path):
    rate = Warmup(Constant(0.25), warmup_updates=8)
    whole = trained(tmp_path / "whole", lambda model: Optimizer(Own, model), 3, rate)
    for epochs in (1, 3):
        parts = trained(tmp_path / "parts", lambda model: Optimizer(Own, model), epochs, rate)
    plain = trained(tmp_path / "plain", lambda model: Own(model.parameters(), lr=0.25), 3, rate)
    assert all(map(torch.equal, whole, parts)) and all(map(torch.equal, whole, plain))


def test_groups_that_differ_in_what_a_class_has_once_are_refused():
    lion = pytest.importorskip("lion_pytorch").Lion
    options = [{"decoupled_weight_decay": number} for number in (True, False)]
    with pytest.raises(errors.MismatchError, match="decoupled_weight_decay is .True, False. by"):
        Optimizer.joint(lion, nn.Linear(3, 2), [["weight"], ["bias"]], options)


@pytest.mark.parametrize("lr", [0.5, None])
def test_a_groups_lr_scale_is_applied_to_a_rate_or_refused(lr):
    model = nn.Linear(3, 2)
    groups = [{"params": [value], "lr_scale": scale} for value, scale in (
        (model.weight, 0.1), (model.bias, 1.0)
    )]  # fmt: skip
    optimizer = torch.optim.SGD(groups, lr=0.5)
    if lr is None:
        with pytest.raises(errors.MismatchError, match="groups have an lr_scale, which torch"):
            torch_optimizer.adapted(optimizer, lr, model)
        timm = pytest.importorskip("timm.scheduler").StepLRScheduler(optimizer, 3)
        grouped, schedule = torch_optimizer.adapted(optimizer, timm, model)
    else:
        grouped, schedule = torch_optimizer.adapted(optimizer, lr, model)
    assert grouped.learning_rates(schedule(0), 0) == {"group0": 0.05, "group1": 0.5}


def test_sparse_gradients_and_complex_parameters_have_no_fused_kernel():
    sparse = nn.EmbeddingBag(20, 8, sparse=True)
    Optimizer(torch.optim.SGD, sparse).step(
        0.1, sparse, backward(sparse(torch.tensor([[1, 2]])).sum(), sparse)
    )
    complex64 = nn.Linear(2, 2, dtype=torch.complex64)
    ones = {name: torch.ones_like(parameter) for name, parameter in complex64.named_parameters()}
    gradients = Gradients(ones, complex64)
    before = complex64.weight.detach().clone()
    Optimizer(torch.optim.Adam, complex64).step(0.1, complex64, gradients)
    assert not torch.equal(complex64.weight, before)
