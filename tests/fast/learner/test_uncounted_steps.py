"""A step in which no target counts adds zeros: in one process, in slices, in several processes, and
accumulated, an update trains as a plain loop of torch does.
"""

import copy
import functools
import importlib
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from torch import nn
from torch.nn.functional import cross_entropy

from andiron.data.dataset import WeightedBatch
from andiron.distributed import ALONE, Sliced, World
from andiron.gradients import backward
from andiron.learner import update as one_update
from andiron.learner.nonfinite import Nonfinite
from andiron.learner.precision import Precision
from andiron.metrics import Loss, Mean, Tally
from andiron.optim import GradientsAccumulator, GroupedOptimizer, Optimizer
from andiron.optim.divided import early_exchange
from andiron.outputs import ClassificationOutput, SequenceOutput
from andiron.schedules import Constant
from andiron.tasks import (
    BinaryClassifier, BinaryCrossEntropy, Classifier, CrossEntropy, Forward, MeanSquaredError,
    MultiLabelClassifier, Regressor,
)  # fmt: skip
from threaded_world import in_threads

CONF = Path(__file__).resolve().parents[3] / "conf" / "optimizer"
SHIPPED = sorted(path.stem for path in CONF.glob("*.yaml"))
IGNORED, SIZE = -100, 4
# which of an update's samples have a target that counts: some, none, one, all, none, some
COUNTED = ("1101", "0000", "0010", "1111", "0000", "0011")


def batch(update, counted):
    """Four samples of five places; those that do not count have ignored targets alone."""
    draws = torch.Generator().manual_seed(update)
    inputs = torch.randn(SIZE, 5, 4, generator=draws, dtype=torch.float64)
    targets = torch.randint(3, (SIZE, 5), generator=draws)
    targets[:, 1] = IGNORED
    targets[torch.tensor([value == "0" for value in counted])] = IGNORED
    return {"inputs": inputs, "labels": targets}


class Network(nn.Module):
    """Returns its own loss, as networks of transformers do: NaN without a target that counts."""

    def __init__(self, norm=None):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.last = nn.Linear(4, 6, bias=False), nn.Linear(6, 3, bias=False)
        self.norm = norm or nn.Identity()
        self.double()

    def forward(self, inputs, labels=None):
        logits = self.last(self.norm(self.first(inputs)).tanh())
        if labels is None:
            return {"logits": logits}
        return {"logits": logits, "loss": cross_entropy(logits.flatten(0, 1), labels.flatten())}


TASKS = {
    "own": lambda network: Forward(network, CrossEntropy(ignored_index=IGNORED)),
    "torch": lambda network: Forward(network, nn.CrossEntropyLoss()),
    "network": lambda network: Forward(network, mean_over="targets"),
}


def construction(name):
    """Class, options and rate of a file of conf/optimizer."""
    conf = yaml.safe_load((CONF / f"{name}.yaml").read_text())
    options = conf["optimizer"]
    module, _, kind = options.pop("_target_").rpartition(".")
    if name == "lbfgs":
        options["max_iter"] = 3  # each evaluation amplifies rounding
    options = {key: tuple(e) if isinstance(e, list) else e for key, e in options.items()}
    return getattr(importlib.import_module(module), kind), options, conf["lr"]


def seeded(seed, name, update, *rest):
    """Equal numbers for every part of an update, also for classes that draw from NumPy."""
    torch.manual_seed(update)
    np.random.seed(update)


def right(item):
    if not isinstance(item, SequenceOutput | ClassificationOutput):
        return (item.output > 0) == (item.targets > 0)
    return (item.output.argmax(-1) == item.targets)[item.targets != IGNORED]


METRICS = Loss(), Mean(right, higher_is_better=True)


def updater_of(task, optimizer, world=ALONE, lr=0.1):
    parts = GroupedOptimizer.of(optimizer, task), Constant(lr), Precision(), Nonfinite(world=world)
    return one_update.Updater(task, *parts, world=world)


def trained(task, name, world=ALONE, micro_batches=1, batches=None):
    """The state of `task` after the updates, and its logged values."""
    task = copy.deepcopy(task)
    kind, options, lr = construction(name)
    updater = updater_of(task, Optimizer(kind, task, **options), world, lr)
    position, tally = one_update.Position(0), Tally(METRICS, world)
    for whole in batches or [batch(*value) for value in enumerate(COUNTED)]:
        size = SIZE // micro_batches
        parts = [cut(whole, first, first + size) for first in range(0, SIZE, size)]
        if world.is_divided:
            parts = [
                Sliced({n: cut(part, p[0], p[-1] + 1) for n, p in world.parts(range(size)) if p})
                for part in parts
            ]
        updated = updater.update(parts, position)
        assert updated is not None
        for item, part in zip(updated.items, parts, strict=True):
            tally.add(item, part)
    return task.state_dict(), tally.close_epoch()


def cut(whole, first, end):
    if isinstance(whole, dict):
        return {name: tensor[first:end] for name, tensor in whole.items()}
    return type(whole)(*(tensor[first:end] for tensor in whole))


def plain(network, name):
    """The weights after a loop of torch alone."""
    network = copy.deepcopy(network)
    kind, options, lr = construction(name)
    optimizer = kind(network.parameters(), lr=lr, **options)
    if name == "schedule_free_adamw":
        optimizer.train()

    def loss_of(whole):
        optimizer.zero_grad()
        logits = network(whole["inputs"])["logits"].flatten(0, 1)
        count = (whole["labels"] != IGNORED).sum().clamp(1)
        loss = cross_entropy(logits, whole["labels"].flatten(), reduction="sum") / count
        loss.backward()
        return loss

    for update, counted in enumerate(COUNTED):
        seeded(0, "update", update)
        if name == "lbfgs":
            optimizer.step(functools.partial(loss_of, batch(update, counted)))
        else:
            loss_of(batch(update, counted))
            optimizer.step()
    return {f"network.{key}": tensor for key, tensor in network.state_dict().items()}


# float64: sums in another order. Muon rounds to bfloat16, LBFGS amplifies; the preconditioners of
# SOAP are singular here, and rounding chooses their bases
BOUNDS = {"muon": 0.02 * 2**-7, "lbfgs": 1e-3, "soap": 6 * 0.003}


@pytest.mark.parametrize(
    ("name", "loss"), [*((name, "own") for name in SHIPPED), ("adam", "torch"), ("adam", "network")]
)
def test_updates_of_some_one_and_no_target_train_as_a_plain_loop(name, loss, monkeypatch):
    monkeypatch.setattr(one_update.randomness, "start_stream", seeded)
    network = Network()
    task, expected = TASKS[loss](network), plain(network, name)
    ways = {
        "one process": lambda: [trained(task, name)],
        "accumulated": lambda: [trained(task, name, micro_batches=4)],
        "slices=1": lambda: [trained(task, name, World(slices=1))],
        "slices=4": lambda: [trained(task, name, World(slices=4))],
        "two processes": lambda: in_threads(lambda world: trained(task, name, world), 2),
    }
    if name == "kron":
        del ways["two processes"]  # threads share the generators that it draws from
    logged = []
    for way, train in ways.items():
        for weights, values in train():
            for key, tensor in expected.items():
                off = float((weights[key] - tensor).abs().max())
                assert off <= BOUNDS.get(name, 1e-9), (way, key, off)
            logged.append(values)
    for values in logged[1:]:
        assert values == pytest.approx(logged[0], rel=BOUNDS.get(name, 1e-6))


@pytest.mark.parametrize("large_bytes", [0, early_exchange.LARGE_BYTES])
@pytest.mark.parametrize("counted", ["1101", "0000", "0010", "1100"])
def test_statistics_of_batchnorm_are_means_over_all_samples(counted, large_bytes, monkeypatch):
    monkeypatch.setattr(early_exchange, "LARGE_BYTES", large_bytes)
    task = TASKS["network"](Network(nn.BatchNorm1d(5)))
    whole = [batch(0, counted), batch(1, counted)]
    alone, _ = trained(task, "sgd", micro_batches=2, batches=whole)
    sliced, _ = trained(task, "sgd", World(slices=1), 2, whole)
    for key in alone:
        torch.testing.assert_close(sliced[key], alone[key], rtol=0, atol=1e-12)

    halves = [copy.deepcopy(task) for _ in range(2)]
    for half, first in zip(halves, (0, 2), strict=True):
        half.train_step(cut(whole[0], first, first + 2))
    ranks = in_threads(lambda world: trained(task, "sgd", world, batches=whole[:1]), 2)
    for state, _ in ranks:
        for key in ("network.norm.running_mean", "network.norm.running_var"):
            mean = sum(half.state_dict()[key] for half in halves) / 2
            torch.testing.assert_close(state[key], mean, rtol=0, atol=1e-12)


ANSWERS = torch.tensor([1, 0, 0, 1])
WEIGHTED = {
    "classes": (Classifier, CrossEntropy(), ANSWERS, 3),
    "class weights": (Classifier, CrossEntropy([1.0, 2.0, 0.5]), ANSWERS, 3),
    "torch": (Classifier, nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 0.5])), ANSWERS, 3),
    "answers": (BinaryClassifier, BinaryCrossEntropy(2.0), ANSWERS, 1),
    "labels": (MultiLabelClassifier, BinaryCrossEntropy(), ANSWERS[:, None].repeat(1, 3), 3),
    "values": (Regressor, MeanSquaredError(), ANSWERS[:, None] / 3, 1),
}


@pytest.mark.parametrize("weights", ["0000", "0010", "1100"])
@pytest.mark.parametrize("loss", WEIGHTED)
def test_sample_weights_of_0_are_samples_that_do_not_count(loss, weights):
    kind, criterion, targets, outputs = WEIGHTED[loss]
    torch.manual_seed(1)
    task = kind(nn.Linear(4, outputs), criterion)
    inputs, counts = torch.randn(SIZE, 4), torch.tensor([float(weight) for weight in weights])
    whole = [WeightedBatch(inputs, targets, counts)] * 2
    expected, values = trained(task, "adamw", batches=whole)
    if kept := counts.bool().any():
        alone = WeightedBatch(*(value[counts > 0] for value in whole[0]))
        actual, _ = trained(task, "adamw", World(slices=1), batches=[alone] * 2)
        assert_close(actual, expected)
    assert ("loss" in values) == bool(kept) and values["right"] >= 0
    for result, logged in [
        trained(task, "adamw", micro_batches=4, batches=whole),
        trained(task, "adamw", World(slices=4), batches=whole),
        *in_threads(lambda world: trained(task, "adamw", world, batches=whole), 2),
    ]:
        assert_close(result, expected)
        assert logged == pytest.approx(values, rel=1e-5)


def assert_close(actual, expected):
    for key in expected:
        # float32: Adam makes steps of lr of rounding
        torch.testing.assert_close(actual[key], expected[key], rtol=0, atol=1e-5)


@pytest.mark.parametrize("weight", [0, 0.0, torch.tensor(0), torch.tensor(0.0)])
@pytest.mark.parametrize("number", [1, 3])
def test_nan_of_weight_0_adds_nothing(number, weight):
    network = nn.Linear(2, 2)

    def step(factor=1.0):
        return backward(network(torch.ones(3, 2)).square().mean() * factor, network)

    for empty in range(number):
        accumulator, expected = GradientsAccumulator(), step()
        for place in range(number):
            accumulator.add(*((step(torch.nan), weight) if place == empty else (step(), 2)))
        result = accumulator.mean()
        for name in expected:
            torch.testing.assert_close(result[name], expected[name] * (number > 1))
        torch.testing.assert_close(result.loss, expected.loss * (number > 1))
