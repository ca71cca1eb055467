"""A run from Python records where its code comes from before its first update."""

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


@pytest.mark.parametrize("has_checkpoints", [False, True])
def test_a_run_has_its_code_on_record_before_its_first_update(tmp_path, answer, has_checkpoints):
    threading.Timer(0.1, answer.set).start()
    with learner(tmp_path, has_checkpoints=has_checkpoints) as trained:
        first = next(iter(trained.steps(BATCHES, BATCHES)))
        assert first.updates == 1 and recorded_code(tmp_path) == CODE


def test_a_run_that_cannot_be_trained_leaves_nothing(tmp_path, answer):
    answer.set()
    with pytest.raises(ValueError), learner(tmp_path / "run") as trained:
        trained.fit([(torch.ones(2, 4), torch.tensor([0, 1]))], BATCHES)
    assert not (tmp_path / "run").exists()
