"""Parameters frozen by groups do not change, nor the statistics beside them."""

import pytest
import torch
from torch import nn

from andiron.learner import LearnerBuilder
from andiron.metrics import Loss
from andiron.optim import Group, GroupedOptimizer, Optimizer
from andiron.tasks import Classifier

BATCHES = [(torch.randn(6, 4), torch.randint(3, (6,))) for _ in range(6)]
BODIES = {
    "batch norm": lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5)),
    "without parameters": lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5, affine=False)),
    "instance norm": lambda: nn.Sequential(
        nn.Linear(4, 5), nn.Unflatten(1, (1, 5)),
        nn.InstanceNorm1d(1, affine=True, track_running_stats=True), nn.Flatten(),
    ),
    "spectral norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 5)),
    "nested": lambda: nn.Sequential(nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5)), nn.Tanh()),
}  # fmt: skip


def states(body, *, frozen_updates=0, calls_train=False, **settings):
    """The body's state before training, and after each update."""
    torch.manual_seed(0)
    head = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 3))
    network = nn.Sequential(BODIES[body](), head)
    task = Classifier(network)
    parts = {name: {} for name in ("body", "head")}
    for name, tensor in task.named_parameters():
        parts["body" if name.startswith("network.0") else "head"][name] = tensor
    own = {n: Optimizer(torch.optim.SGD, task, names=[*part]) for n, part in parts.items()}
    groups = [
        Group(
            name=name,
            parameters=part,
            optimizer=None if name == "body" and not frozen_updates else own[name],
            frozen_updates=frozen_updates if name == "body" else 0,
            **settings,
        )
        for name, part in parts.items()
    ]
    builder = LearnerBuilder(num_epochs=1).metric_valid_numeric(Loss()).renderer(None)
    made = builder.unrecorded().with_writers().build(task, GroupedOptimizer(task, groups), 0.1)
    result = [{name: t.clone() for name, t in network[0].state_dict().items()}]
    statistics = head[0].running_mean.clone()
    for step in made.steps(BATCHES, BATCHES[:1]):
        if step.kind == "update":
            result.append({name: t.clone() for name, t in network[0].state_dict().items()})
            if calls_train:
                task.train()
    assert not torch.equal(statistics, head[0].running_mean)  # of what trains
    return result


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("calls_train", [False, True])
@pytest.mark.parametrize("body", BODIES)
def test_nothing_of_a_frozen_group_changes(body, calls_train):
    first, *later = states(body, calls_train=calls_train)
    assert len(later) == 6 and all(same(first, state) for state in later)


@pytest.mark.parametrize("body", BODIES)
def test_a_group_that_thaws_trains_from_then_on_with_its_statistics(body):
    first, *later = states(body, frozen_updates=3)
    assert [same(first, state) for state in later] == [True] * 3 + [False] * 3
    buffers = [name for name in first if name.endswith(("running_mean", "_u", "_v"))]
    assert buffers and not any(torch.equal(first[name], later[-1][name]) for name in buffers)


@pytest.mark.parametrize("body", BODIES)
def test_statistics_of_a_frozen_group_train_where_asked_for(body):
    first, *later = states(body, trains_statistics=True)
    for name, tensor in first.items():
        is_statistic = name.endswith(("running_mean", "running_var"))
        # instance norm does not count, and the vectors of a fixed matrix converge
        if not name.endswith(("num_batches_tracked", "_u", "_v")):
            assert torch.equal(tensor, later[-1][name]) != is_statistic, name


def test_dropout_of_a_frozen_group_stays_active():
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(4, 64), nn.BatchNorm1d(64), nn.Dropout())
    task = Classifier(nn.Sequential(body, nn.Linear(64, 3)))
    rest = dict(task.named_parameters())
    frozen = {name: rest.pop(name) for name in [*rest] if name.startswith("network.0.")}
    groups = [
        Group(name="body", parameters=frozen, optimizer=None),
        Group(name="head", parameters=rest, optimizer=Optimizer(torch.optim.SGD, task, [*rest])),
    ]
    builder = LearnerBuilder(num_epochs=1).metric_valid_numeric(Loss()).renderer(None)
    made = builder.unrecorded().with_writers().build(task, GroupedOptimizer(task, groups), 0.1)
    dropped = []
    body.register_forward_hook(lambda *a: dropped.append((a[2] == 0).float().mean().item()))
    made.fit(BATCHES, BATCHES[:1])
    *updates, validation = dropped
    assert all(0.3 < share < 0.7 for share in updates) and validation == 0
    assert not body[1].training and body[2].training


def test_parameters_that_the_users_code_freezes_leave_the_mode_alone():
    norm = nn.BatchNorm1d(4)
    norm.requires_grad_(False)
    task = Classifier(nn.Sequential(norm, nn.Linear(4, 3)))
    builder = LearnerBuilder(num_epochs=1).metric_valid_numeric(Loss()).renderer(None)
    made = builder.unrecorded().with_writers().build(task, Optimizer(torch.optim.SGD, task), 0.1)
    made.fit(BATCHES, BATCHES[:1])
    assert norm.running_mean.abs().max() > 0
