"""A learner's displays in training, and its methods afterwards."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from andiron import errors
from andiron.data import DataLoader, digits
from andiron.interrupter import Interrupter
from andiron.learner import LearnerBuilder, evaluation
from andiron.metrics import Accuracy, Loss
from andiron.optim import Optimizer
from andiron.tasks import Classifier

SPLITS = digits(valid=0.1, split_seed=0)
TRAIN = DataLoader(SPLITS.valid, SPLITS.batcher, batch_size=50)
VALID = DataLoader(SPLITS.test, SPLITS.batcher, batch_size=100)


def built(folder, *, lr=1e-2, num_epochs=2, interrupter=None, **chosen):
    torch.manual_seed(1)
    model = Classifier(nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 10)))
    renderer = [chosen.pop("renderer")] if "renderer" in chosen else []
    builder = LearnerBuilder(folder, num_epochs=num_epochs, **chosen)
    builder.metric_valid_numeric(Loss(), Accuracy()).with_file_checkpointer()
    builder.interrupter(interrupter or Interrupter())
    if renderer:
        builder.renderer(*renderer)
    return builder.build(model, Optimizer(torch.optim.SGD, model), lr)


def test_the_line_of_an_epoch_has_no_values_of_an_earlier_one(tmp_path, capsys):
    for num_epochs in (3, 5):  # a resumed run too
        with built(tmp_path, num_epochs=num_epochs, validate_every=4, resume=True) as learner:
            learner.fit(TRAIN, VALID)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("epoch ")]
    assert ["valid loss" in line for line in lines] == [False] * 3 + [True, False]


def test_a_line_for_each_epoch_and_the_summary_are_printed(tmp_path, capsys):
    with built(tmp_path) as learner:
        learner.fit(TRAIN, VALID)
    first, second, *summary = capsys.readouterr().out.splitlines()
    assert first.startswith("epoch 1/2  update     3  valid loss ")  # no train metric is named
    assert second.startswith("epoch 2/2  update     6  valid loss ")
    assert str(tmp_path) in " ".join(summary)


def test_without_a_renderer_nothing_is_printed(tmp_path, capsys):
    with built(tmp_path, renderer=None) as learner:
        learner.fit(TRAIN, VALID)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("most_unread", [evaluation.MOST_UNREAD, 1_500, 999])
def test_evaluate_and_predict_agree_with_a_loop_of_ones_own(most_unread, tmp_path, monkeypatch):
    monkeypatch.setattr(evaluation, "MOST_UNREAD", most_unread)  # a batch has 1,000 numbers
    with built(tmp_path, renderer=None) as learner:
        learner.fit(TRAIN, VALID)
    logged = (tmp_path / "metrics.jsonl").read_bytes()

    outputs, values = learner.predict(VALID), learner.evaluate(VALID)

    learner.model.eval()
    batches = list(VALID.epoch(0))
    with torch.no_grad():
        expected = torch.cat([learner.model.network(batch.inputs) for batch in batches])
    targets = torch.cat([batch.targets for batch in batches])
    assert torch.equal(outputs, expected)
    assert values["accuracy"] == (expected.argmax(1) == targets).double().mean().item()
    # a mean of batches' float32 means rounds differently
    assert values["loss"] == pytest.approx(cross_entropy(expected, targets).item(), rel=1e-5)
    assert (tmp_path / "metrics.jsonl").read_bytes() == logged


def test_evaluating_between_two_fits_changes_no_bit(tmp_path):
    runs = {}
    for measures in (False, True):
        with built(tmp_path / str(measures), renderer=None) as learner:
            for step in learner.steps(TRAIN, VALID):
                if measures and step.kind == "update":
                    learner.evaluate(VALID)
                    learner.predict(VALID)
        runs[measures] = learner.exports()["model"]
    assert all(torch.equal(runs[True][name], tensor) for name, tensor in runs[False].items())


def test_best_gives_the_best_weights_and_training_continues_with_its_own(tmp_path):
    rising = {0: 0.1, 1: 0.1, 2: 0.1}  # of the first epoch; then too high: the loss rises
    lr = lambda updates: rising.get(updates, 50.0)  # noqa: E731
    with built(tmp_path, lr=lr, renderer=None) as learner:
        learner.fit(TRAIN, VALID)
        last = learner.exports()["model"]
        standing = learner.metric_log.history.standings["valid"]["loss"]
        assert standing.best < standing.last

        assert learner.best() is learner.model
        assert learner.evaluate(VALID)["loss"] == standing.best
        with learner.training(TRAIN):
            own = learner.exports()["model"]
    assert all(torch.equal(tensor, last[name]) for name, tensor in own.items())


def test_best_is_refused_within_the_loop_which_trains_on_as_it_was(tmp_path):
    def train(folder, asks):
        with built(tmp_path / folder, lr=1.0, renderer=None) as learner:
            for _ in learner.steps(TRAIN, VALID):
                if asks:
                    with pytest.raises(RuntimeError, match="best: the loop still trains"):
                        learner.best()
            learner.best()
            return learner.exports()["model"]

    asked, plain = train("a", asks=True), train("b", asks=False)
    assert all(torch.equal(tensor, plain[name]) for name, tensor in asked.items())


def test_each_learner_refuses_best_by_its_own_loop(tmp_path):
    shared = Interrupter()
    with (
        built(tmp_path / "a", renderer=None, interrupter=shared) as training,
        built(tmp_path / "b", renderer=None, interrupter=shared) as idle,
    ):
        idle.fit(TRAIN, VALID)
        for step in training.steps(TRAIN, VALID):
            if step.kind == "validation":
                idle.best()
                with built(tmp_path / str(step.updates), interrupter=shared) as probe:
                    probe.fit(TRAIN, VALID)
                with pytest.raises(RuntimeError, match="best: the loop still trains"):
                    training.best()


def test_best_needs_checkpoints(tmp_path):
    model = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))
    learner = LearnerBuilder(tmp_path).build(model, Optimizer(torch.optim.SGD, model), 0.1)
    with pytest.raises(errors.RunFolderError, match="no checkpoints; build it with with_file_"):
        learner.best()


def test_predict_names_an_item_without_output(tmp_path):
    class Bare:
        weight, loss = 1, torch.tensor(1.0)

    model = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))
    model.valid_step = lambda batch: Bare()
    learner = LearnerBuilder(tmp_path).build(model, Optimizer(torch.optim.SGD, model), 0.1)
    with pytest.raises(TypeError, match="valid_step returns Bare, which has no output tensor"):
        learner.predict(VALID)
