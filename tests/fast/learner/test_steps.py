"""`steps`: the training loop as an iterator, of which `fit` is the plain use."""

import itertools
import json

import pytest
import torch
from small_digits import BATCHES, LR, builder, classifier, loaders, same

from andiron import checkpoint
from andiron.optim import Optimizer
from refusals import message_of


def made(folder, **options):
    model = classifier()
    saved = builder(folder, **options).with_file_checkpointer()
    return saved.build(model, Optimizer(torch.optim.SGD, model), LR)


def weights(learner):
    return {name: value.clone() for name, value in learner.model.state_dict().items()}


def trained(folder):
    with made(folder) as learner:
        learner.fit(*loaders())
        return weights(learner)


def test_a_loop_over_steps_is_fit(tmp_path):
    with made(tmp_path / "loop") as learner:
        for _ in learner.steps(*loaders()):
            pass
        assert same(weights(learner), trained(tmp_path / "fit"))


def test_steps_says_what_happened_and_where(tmp_path):
    with made(tmp_path) as learner:
        happened = [step[:4] for step in learner.steps(*loaders())]
    first = [("update", batch, 1, batch) for batch in range(1, BATCHES + 1)]
    second = [("update", BATCHES + batch, 2, batch) for batch in range(1, BATCHES + 1)]
    assert happened == [
        *first, ("validation", BATCHES, 1, BATCHES),
        *second, ("validation", 2 * BATCHES, 2, BATCHES), ("test", 2 * BATCHES, 2, BATCHES),
    ]  # fmt: skip


def test_a_validation_within_and_before_an_epoch_is_a_step(tmp_path):
    learner_builder = builder(tmp_path, num_epochs=1).options(validate_every=3, validate_first=True)
    model = classifier()
    with learner_builder.build(model, Optimizer(torch.optim.SGD, model), LR) as learner:
        steps = list(learner.steps(*loaders()))
    validated = [step.updates for step in steps if step.kind == "validation"]
    assert validated == [0, 3, 6, 7]


def test_a_step_has_the_values_logged_and_the_items(tmp_path):
    with made(tmp_path, num_epochs=1) as learner:
        steps = list(learner.steps(*loaders()))
        latest = learner.metric_log.latest
    logged = [step.updates for step in steps if step.kind == "update" and step.values]
    assert logged == [3, 6, 7]
    assert {"loss", "accuracy", "lr/base"} <= steps[2].values.keys()
    assert steps[-2].values == latest["valid"] and steps[-1].values == latest["test"]
    sizes = [len(step.item.targets) for step in steps if step.kind == "update"]
    assert sizes == [8, 8, 8, 8, 8, 8, 5]
    assert steps[-1].item is None


@pytest.mark.parametrize("left_at", [0, 3, 6, 7, 8, 14])  # the last update, and the validations
def test_a_loop_that_is_left_resumes_with_the_same_bits(tmp_path, left_at):
    with made(tmp_path / "left") as learner:
        for number, _ in enumerate(learner.steps(*loaders())):
            if number == left_at:
                break
    with made(tmp_path / "left") as learner:
        learner.resume()
        assert learner.updates == left_at + 1 - (left_at >= BATCHES)
        learner.fit(*loaders())
        assert same(weights(learner), trained(tmp_path / "whole"))


def test_a_loop_that_is_left_can_be_taken_up_by_the_same_learner(tmp_path):
    with made(tmp_path / "left") as learner:
        for step in itertools.islice(learner.steps(*loaders()), 5):
            assert step.kind == "update"
        learner.fit(*loaders())
        assert same(weights(learner), trained(tmp_path / "whole"))


def test_an_error_in_the_body_ends_the_loop_with_the_state_saved(tmp_path):
    def fail():
        with made(tmp_path) as learner:
            for step in learner.steps(*loaders()):
                if step.updates == 4:
                    raise ZeroDivisionError("mine")

    assert "mine" in message_of(ZeroDivisionError, fail)
    newest = max(tmp_path.glob("checkpoints/step-*"), key=lambda path: path.name)
    assert checkpoint.load(newest).state["updates"] == 4


def test_the_status_of_a_loop_that_is_left_says_so(tmp_path):
    with made(tmp_path) as learner:
        for step in learner.steps(*loaders()):
            if step.updates == 2:
                break
    status = json.loads((tmp_path / "status.json").read_text())
    assert [status[name] for name in ("status", "reason")] == ["interrupted", "its loop was left"]


def test_closing_the_learner_ends_a_loop_that_is_still_open(tmp_path):
    with made(tmp_path) as learner:
        steps = learner.steps(*loaders())
        for _ in range(4):
            next(steps)
    assert list(steps) == []
    newest = max(tmp_path.glob("checkpoints/step-*"), key=lambda path: path.name)
    assert checkpoint.load(newest).state["updates"] == 4


def test_code_between_updates_changes_what_is_trained(tmp_path):
    with made(tmp_path) as learner:
        frozen, before = learner.model.network.features[0], None
        for step in learner.steps(*loaders()):
            if step.updates == 3 and before is None:
                frozen.requires_grad_(False)
                before = weights(learner)
        changed = {
            name for name, weight in weights(learner).items() if not weight.equal(before[name])
        }
    own = {f"network.features.0.{name}" for name, _ in frozen.named_parameters()}
    assert changed == before.keys() - own


@pytest.mark.parametrize("is_frozen", [False, True])
def test_gradients_that_other_code_leaves_are_in_no_update(tmp_path, is_frozen):
    def train(folder, leaves):
        with made(folder) as learner:
            parameters = [*learner.model.parameters()]
            parameters[0].requires_grad_(not is_frozen)
            for parameter in parameters if leaves else ():  # of a look before training
                parameter.grad = torch.ones_like(parameter)
            for _ in learner.steps(*loaders()):
                if leaves:  # a diagnosis, which a loop in torch forgets by zero_grad
                    sum(value.square().sum() for value in parameters).backward()
            return weights(learner)

    plain = train(tmp_path / "plain", leaves=False)
    assert same(train(tmp_path / "left", leaves=True), plain)
