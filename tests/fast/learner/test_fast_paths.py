"""Each fast path, with each of its inputs changed between two updates, equals the public way."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from andiron import gradients
from andiron.data import ArrayBatcher, ArrayDataset, Batch, DataLoaderBuilder
from andiron.learner import LearnerBuilder
from andiron.metrics import Accuracy, Loss
from andiron.plain import fast_paths
from andiron.tasks import Classifier

SOURCE = Path(fast_paths.__file__).parents[1]
CHANGED_AFTER = 4  # updates, in the middle of an epoch and of a window
KINDS = {
    "adam": lambda parts: torch.optim.Adam(parts, lr=0.01, fused=True),
    "adamw": lambda parts: torch.optim.AdamW(parts, lr=0.01, fused=True),
    "sgd": lambda parts: torch.optim.SGD(parts, lr=0.1, momentum=0.9, fused=True),
}


class Network(nn.Module):
    """Two layers with dropout, and a branch that only some updates use."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.drop = nn.Linear(16, 8), nn.Dropout(0.2)
        self.last, self.branch = nn.Linear(8, 3), nn.Linear(8, 3)
        self.uses_branch, self.width = True, 3

    def forward(self, inputs):
        hidden = self.drop(torch.tanh(self.first(inputs)))
        logits = self.last(hidden) + (self.branch(hidden) if self.uses_branch else 0)
        return logits[:, : self.width]


class Reusing(ArrayBatcher):
    """Batches in one memory, written again for each."""

    memory = torch.empty(8, 16), torch.empty(8, dtype=torch.int64)

    def __call__(self, raw, device):
        size = len(raw.targets)
        return Batch(*(m[:size].copy_(value) for m, value in zip(self.memory, raw)))


def option(**options):
    return lambda run: run.group.update(options)


def in_place(get, change):
    def edit(run):
        with torch.no_grad():
            change(get(run))

    return edit


def poisoned(run):
    """The gradients of one weight are infinite in one update."""
    made = iter([True])

    def poison(weight):
        if next(made, False):
            weight.grad.fill_(torch.inf)

    run.network.last.weight.register_post_accumulate_grad_hook(poison)


def restored(run):
    run.optimizer.load_state_dict(run.saved)


class HookedLoss(nn.CrossEntropyLoss):
    """A loss whose hook changes its gradient in place."""

    is_hooked = False

    def forward(self, logits, targets):
        value = super().forward(logits, targets)
        if self.is_hooked and value.requires_grad:
            value.register_hook(lambda gradient: gradient.mul_(0.5))
        return value


def without(module, name):
    return lambda run: setattr(getattr(run.network, module), name, None)


FUSED = {
    "weight decay": ("adam adamw sgd", option(weight_decay=0.3)),
    "betas": ("adam adamw", option(betas=(0.5, 0.7))),
    "eps": ("adam adamw", option(eps=0.1)),
    "maximize": ("adam adamw sgd", option(maximize=True)),
    "decoupled": ("adam", option(decoupled_weight_decay=True, weight_decay=0.2)),
    "momentum": ("sgd", option(momentum=0.3)),
    "no momentum": ("sgd", option(momentum=0)),
    "dampening": ("sgd", option(dampening=0.5)),
    "nesterov": ("sgd", option(nesterov=True)),
    "rate": ("adam adamw sgd", option(lr=0.003)),
    "tensor rate": ("adam sgd", lambda run: run.group.update(lr=torch.tensor(0.02))),
    "not fused": ("adam adamw sgd", option(fused=False)),
    "state cleared": ("adam adamw sgd", lambda run: run.optimizer.state.clear()),
    "state loaded": ("adam adamw sgd", restored),
    "frozen weight": ("adam sgd", lambda run: run.network.first.weight.requires_grad_(False)),
    "branch": ("adam sgd", lambda run: setattr(run.network, "uses_branch", False)),
    "weights": ("adam", in_place(lambda run: run.network.last.weight, lambda w: w.mul_(0.5))),
}
# fast paths, options of the program, change
CASES = {
    f"{kind}, {name}": ("fused step", {"kind": kind}, change)
    for name, (kinds, change) in FUSED.items()
    for kind in kinds.split()
} | {
    "hook before a step": ("plain step", {"kind": "sgd"},
                           lambda run: run.optimizer.register_step_pre_hook(
                               lambda *_: setattr(run.network.last.bias, "grad", None)
                           )),
    "hook after a step": ("plain step", {"kind": "adam"},
                          lambda run: run.optimizer.register_step_post_hook(
                              lambda *_: run.network.last.weight.data.clamp_(-0.1, 0.1)
                          )),
    "hook of the loss": ("engine", {"loss": HookedLoss},
                         lambda run: setattr(run.loss, "is_hooked", True)),
    "anomaly mode": ("engine", {}, lambda run: torch.autograd.set_detect_anomaly(False)),
    "bias removed": ("named parameters", {}, without("last", "bias")),
    "tied weights": ("named parameters", {},
                     lambda run: setattr(run.network.branch, "weight", run.network.last.weight)),
    "infinite gradient": ("finite check", {}, poisoned),
    "infinite sum": ("checked division", {"accumulation": 2}, poisoned),
    "another dropout": ("generators", {}, lambda run: setattr(run.network.drop, "p", 0.6)),
    "targets": ("batches together", {},
                in_place(lambda run: run.data.targets, lambda t: t.add_(1).fmod_(3))),
    "inputs": ("batches together", {}, in_place(lambda run: run.data.inputs, lambda i: i.mul_(2))),
    "targets replaced": ("batches together", {},
                         lambda run: setattr(run.data, "targets", run.data.targets.flip(0))),
    "batcher": ("batches together", {},
                lambda run: setattr(run.train, "batcher", ArrayBatcher((0.5,)))),
    "sample weights": ("batches together", {},
                       lambda run: setattr(run.data, "weights", torch.arange(90.0) / 45)),
    "memory of a batch": ("counted later", {},
                          lambda run: setattr(run.train, "batcher", Reusing())),
    "number of classes": ("counted later", {}, lambda run: setattr(run.network, "width", 2)),
}  # fmt: skip


def made(kind="adam", accumulation=1, loss=None):
    """A learner of 90 samples in batches of 8, with what a case may change."""
    torch.manual_seed(1)
    data = ArrayDataset(torch.randn(90, 16), torch.randint(2, (90,)))
    train = DataLoaderBuilder(ArrayBatcher()).batch_size(8).shuffle(3).build(data)
    network, loss = Network(), loss and loss()
    optimizer = KINDS[kind](network.parameters())
    builder = LearnerBuilder(
        num_epochs=2, log_every=7, on_nonfinite="skip", grads_accumulation=accumulation
    )
    builder.metric_train_numeric(Loss(), Accuracy()).metric_valid_numeric(Loss(), Accuracy())
    learner = (
        builder.renderer(None)
        .unrecorded()
        .with_writers()
        .build(Classifier(network, loss), optimizer)
    )
    return SimpleNamespace(
        network=network, loss=loss, optimizer=optimizer, learner=learner,
        train=train, data=train.dataset,
    )  # fmt: skip


def results(change, options):
    """Every weight, state and measured value after a run that is changed in its middle."""
    run = made(**options)
    with run.learner as learner:
        for step in learner.steps(run.train, run.train):
            if step.kind == "update" and step.updates == 2:
                run.saved = run.optimizer.state_dict()
            if step.kind == "update" and step.updates == CHANGED_AFTER:
                run.group = run.optimizer.param_groups[0]
                change(run)
    state = learner.optimizer.state_dict() | dict(run.network.state_dict())
    return state, learner.metric_log.history.state_dict(), learner.rates


def same(one, other):
    states = one[0].keys() == other[0].keys() and all(
        torch.equal(one[0][name], other[0][name]) for name in one[0]
    )
    return states and repr(one[1:]) == repr(other[1:])


@pytest.fixture
def asked(monkeypatch):
    """The names of the fast paths that were taken."""
    names = set()

    class Recorded(dict):
        def __getitem__(self, name):
            names.add(name)
            return super().__getitem__(name)

    monkeypatch.setattr(fast_paths, "on", Recorded(fast_paths.on))
    return names


@pytest.mark.filterwarnings("ignore:.*lr_scheduler.step")
@pytest.mark.parametrize("case", CASES)
def test_a_fast_path_whose_input_changes_equals_the_public_way(asked, case):
    path, options, change = CASES[case]
    fast = results(change, options)
    assert path in asked
    with fast_paths.off():
        assert same(fast, results(change, options))


@pytest.mark.parametrize("tensor", [
    torch.ones(2, dtype=torch.complex64), torch.ones(()).expand(3), torch.ones(2).to_sparse(),
])  # fmt: skip
def test_gradients_of_any_kind_are_checked(tensor):
    for value, expected in ((tensor, True), (tensor * torch.inf, False)):
        result = gradients.Gradients({"w": value, "v": torch.ones(2)}, nn.Linear(1, 1))
        assert gradients.all_finite(result) is expected


def test_every_fast_path_has_a_case_and_asks_the_switch():
    # in several processes (test_distributed.py), and above
    elsewhere = {"early exchange"}
    assert {path for path, *_ in CASES.values()} | elsewhere == {*fast_paths.FAST_PATHS}
    texts = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")]
    asking = {name for text in texts for name in re.findall(r'fast_paths\.on\["([^"]+)"\]', text)}
    assert asking == fast_paths.FAST_PATHS.keys()
    assert all(": " in text for text in fast_paths.FAST_PATHS.values())
