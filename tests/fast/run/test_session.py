"""A run from Python records where its code comes from while it trains already, or before."""

import json
import threading

import pytest
import torch
from torch import nn

from andiron.learner import LearnerBuilder
from andiron.metrics import Loss
from andiron.optim import Optimizer
from andiron.shell.run import code_origin
from andiron.tasks import Classifier

BATCHES = [(torch.ones(2, 3), torch.tensor([0, 1]))] * 3
CODE = {"git": None, "projects": {}, "modules": {"mine": {"path": "mine.py"}}}


@pytest.fixture
def answer(monkeypatch):
    """The moment at which git answers."""
    event = threading.Event()
    monkeypatch.setattr(code_origin, "gather", lambda *_: (event.wait(60) and CODE, {}))
    yield event
    event.set()


def learner(folder, *, has_checkpoints=False):
    model = Classifier(nn.Linear(3, 2))
    builder = LearnerBuilder(folder, num_epochs=2, log_every=1).renderer(None)
    builder.metric_valid_numeric(Loss())
    if has_checkpoints:
        builder.with_file_checkpointer()
    return builder.build(model, Optimizer(torch.optim.SGD, model), 0.1)


def recorded_code(folder):
    origin = json.loads((folder / "provenance.json").read_text())
    assert [*origin][:5] == ["command", "andiron", *CODE]
    return {name: origin[name] for name in CODE}


def test_training_does_not_wait_for_git(tmp_path, answer):
    with learner(tmp_path) as trained:
        for step in trained.steps(BATCHES, BATCHES):
            if step.kind == "update" and step.updates == 2:
                assert (tmp_path / "data.json").exists() and (tmp_path / "config.json").exists()
                assert not (tmp_path / "provenance.json").exists()
                answer.set()
            if step.kind == "validation" and step.updates == 6:
                assert recorded_code(tmp_path) == CODE  # at a log point
    (events,) = tmp_path.glob("tensorboard/events*")
    assert b"provenance" in events.read_bytes()


@pytest.mark.parametrize("is_left", [False, True])
def test_git_that_answers_last_is_waited_for_at_the_end(tmp_path, answer, is_left):
    with learner(tmp_path) as trained:
        for _ in trained.steps(BATCHES, BATCHES):
            threading.Timer(0.1, answer.set).start()
            if is_left:
                break
    assert recorded_code(tmp_path) == CODE


def test_a_run_with_checkpoints_has_its_code_on_record_before_the_first_one(tmp_path, answer):
    threading.Timer(0.1, answer.set).start()
    with learner(tmp_path, has_checkpoints=True) as trained:
        first = next(iter(trained.steps(BATCHES, BATCHES)))
        assert first.updates == 1 and recorded_code(tmp_path) == CODE


def test_a_run_that_cannot_be_trained_leaves_nothing_and_asks_no_more(tmp_path, answer):
    with pytest.raises(ValueError), learner(tmp_path / "run") as trained:
        trained.fit([(torch.ones(2, 4), torch.tensor([0, 1]))], BATCHES)
    answer.set()
    assert not (tmp_path / "run").exists()
