"""Several rules of a run at once, and the weights of its best epoch."""

import logging

import pytest
import torch
from torch import nn

from andiron import errors
from andiron.learner.extras.early_stopping import EarlyStopping, StoppingRules
from andiron.metrics import direction


class Network(nn.Module):
    """Batch norm, a tied weight, a mask that is infinite, and a buffer that is not saved."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(3, 5)
        self.norm = nn.BatchNorm1d(5)
        self.head = nn.Linear(3, 5)
        self.head.weight = self.stem.weight
        self.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)


def weights(model):
    """A copy of everything that `state_dict` saves."""
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def set_to(model, number):
    """Every saved value of the model set to the number."""
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.fill_(number)


def same(actual, expected):
    """Whether both hold the same names and bits."""
    return list(actual) == list(expected) and all(
        torch.equal(actual[name], expected[name]) for name in expected
    )


def restoring(model):
    """A rule that restores the best weights, and a function that shows it a better validation."""
    stopping = StoppingRules({"best": EarlyStopping("loss", restores_best=True)}, model)
    losses = iter([3.0, 2.0, 1.0])

    def improve():
        stopping.observe({"valid": {"loss": next(losses)}}, epoch=1, updates=0)

    return stopping, improve


def kept(stopping):
    return stopping.weights()["best_epoch"]


def test_best_weights_are_swapped_in_bit_for_bit_buffers_included():
    model = Network()
    (stopping, improve), first = restoring(model), weights(model)
    improve()
    set_to(model, 7)
    model.scratch.fill_(3)
    seventh = weights(model)

    with pytest.raises(KeyboardInterrupt), stopping.restored():
        assert same(weights(model), first)
        assert model.head.weight is model.stem.weight
        assert model.scratch.tolist() == [3, 3]
        assert all(parameter.requires_grad for parameter in model.parameters())
        raise KeyboardInterrupt
    assert same(weights(model), seventh)


def test_better_weights_replace_those_before_in_the_same_memory():
    model = Network()
    stopping, improve = restoring(model)
    improve()
    addresses = {name: tensor.data_ptr() for name, tensor in kept(stopping).items()}
    set_to(model, 2)
    improve()

    assert {name: tensor.data_ptr() for name, tensor in kept(stopping).items()} == addresses
    assert len({*addresses.values()}) == len(addresses) - 1  # the tied weight is kept once
    assert same(kept(stopping), weights(model))
    assert not any(tensor.requires_grad for tensor in kept(stopping).values())


def test_a_buffer_that_a_forward_replaced_is_kept_as_it_is_now():
    model = Network()
    stopping, improve = restoring(model)
    improve()
    model.mask = torch.tensor([1.0, 2.0])
    improve()
    model.mask = torch.tensor([3.0, 4.0])

    with stopping.restored():
        assert model.mask.tolist() == [1.0, 2.0]
    assert model.mask.tolist() == [3.0, 4.0]


def test_saved_weights_are_copied_and_none_stay_none():
    model = Network()
    stopping, improve = restoring(model)
    other, _ = restoring(Network())
    none = stopping.state_dict(), stopping.weights()
    improve()
    other.load_state_dict(stopping.state_dict(), stopping.weights())
    first = weights(model)
    set_to(model, 3)
    improve()
    assert same(kept(other), first)

    other.load_state_dict(*none)
    assert other.weights() == {}


def rules(**more):
    return {
        "patience": EarlyStopping("loss", patience=2, restores_best=True),
        "goal": EarlyStopping("accuracy", direction="highest", goal=0.9), **more,
    }  # fmt: skip


def values(loss, accuracy):
    return {"valid": {"loss": loss, "accuracy": accuracy}}


def test_the_run_ends_when_any_rule_says_so_for_the_reasons_of_all_that_do(caplog):
    model = nn.Linear(1, 1)
    stopping = StoppingRules(rules(), model)
    with caplog.at_level(logging.INFO, logger="andiron"):
        stopping.observe(values(0.5, 0.5), epoch=1, updates=0)
        assert stopping.decision is None
        stopping.observe(values(0.75, 0.9375), epoch=2, updates=0)
        assert stopping.decision == "valid accuracy is 0.9375: goal=0.9 is reached"
        stopping.observe(values(0.75, 0.9375), epoch=3, updates=0)

    both = (
        "valid loss has not improved for 2 validations (best 0.5 at epoch 1); valid accuracy is "
        "0.9375: goal=0.9 is reached"
    )
    assert stopping.decision == both
    assert caplog.messages == [
        "stopped early in epoch 2, after update 0: valid accuracy is 0.9375: goal=0.9 is reached",
        f"stopped early in epoch 3, after update 0: {both}",
    ]


def test_the_restoring_rule_restores_the_weights_of_its_best_epoch():
    model = Network()
    stopping = StoppingRules(rules(), model)
    measured = [(0.5, 0.1), (0.25, 0.2), (0.25, 0.3), (0.75, 0.4)]
    for epoch, (loss, accuracy) in enumerate(measured, start=1):
        set_to(model, epoch)
        stopping.observe(values(loss, accuracy), epoch=epoch, updates=0)

    with stopping.restored():
        assert {float(tensor.float().mean()) for tensor in model.state_dict().values()} == {2.0}
    assert {float(tensor.float().mean()) for tensor in model.state_dict().values()} == {4.0}


def test_the_model_is_unchanged_without_a_restoring_rule_or_best_epoch():
    model = Network()
    before = weights(model)
    for stopping in (StoppingRules({}, model), StoppingRules(rules(), model)):
        with stopping.restored():
            assert same(weights(model), before)
        assert (stopping.decision, stopping.weights()) == (None, {})


def waiting(**made):
    """The values that the rules wait for, by option."""
    return {
        f"early_stopping.{name}": (rule.metric, rule.split, rule.direction)
        for name, rule in made.items()
    }


class Named:
    """A metric of which only the name and the direction matter."""

    def __init__(self, name, higher_is_better=False):
        self.name, self.higher_is_better = name, higher_is_better

    def __call__(self, item):
        raise NotImplementedError


LOSS, ACCURACY, RECALL = Named("loss"), Named("accuracy", True), Named("recall", True)
MEASURED = {
    "train": [LOSS], "valid": [LOSS, ACCURACY, RECALL], "valid-ema": [LOSS, ACCURACY, RECALL],
}  # fmt: skip


def test_rules_for_measured_metrics_pass():
    ema = EarlyStopping("loss", "valid-ema", patience=1)
    part = EarlyStopping("recall/cat", goal=1, direction="highest")
    direction.check_measured(waiting(ema=ema, part=part), MEASURED)


def problems(call, *arguments):
    with pytest.raises(errors.ConfigError) as raised:
        call(*arguments)
    return raised.value.problems


def test_all_rules_that_cannot_be_followed_are_refused_at_once():
    wrong = waiting(
        one=EarlyStopping("los", patience=1),
        two=EarlyStopping("accuracy", "train", goal=1),
        three=EarlyStopping("loss", "test", divergence=9),
        four=EarlyStopping("accuracy", patience=1),
    )
    assert problems(direction.check_measured, wrong, MEASURED) == (
        "early_stopping.one.metric=los: not measured on valid; did you mean 'loss'?; "
        "available: loss, accuracy, recall",
        "early_stopping.two.metric=accuracy: not measured on train; available: loss",
        "early_stopping.three.split=test: nothing is measured on it; "
        "available: train, valid, valid-ema",
        "early_stopping.four.direction=lowest: accuracy is better the other way; "
        "leave it null, or give highest",
    )
    several = MEASURED | {"valid": [Named("f1"), LOSS, Named("f1", True)]}
    assert problems(direction.check_measured, {}, several) == (
        "metrics: several are named 'f1'; give each a `name` of its own",
    )
    both = {name: EarlyStopping("loss", restores_best=True) for name in ("one", "three")}
    assert problems(StoppingRules, both, Network()) == (
        "early_stopping.one.restores_best, early_stopping.three.restores_best: "
        "a run can come back with one set of weights; set it for one of these",
    )
