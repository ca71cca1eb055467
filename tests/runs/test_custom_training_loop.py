"""The loop written by hand in scripts/ trains as well as the Learner does."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

from andiron.data import DataLoader, digits
from andiron.gradients import Gradients
from andiron.learner import LearnerBuilder
from andiron.metrics import Accuracy
from andiron.models import MLP
from andiron.optim import Optimizer
from andiron.tasks import Classifier

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "custom_training_loop", ROOT / "scripts" / "custom_training_loop.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_custom_loop_reaches_the_accuracy_of_the_learner(script, tmp_path):
    splits = digits(valid=0.1, split_seed=0)
    model = Classifier(MLP(splits.input_shape, splits.num_classes))
    builder = LearnerBuilder(tmp_path).metric_valid_numeric(Accuracy()).with_writers()
    with builder.build(model, Optimizer(torch.optim.Adam, model), 1e-3) as learner:
        loaders = (
            DataLoader(splits.train, splits.batcher, shuffle_seed=0),
            DataLoader(splits.valid, splits.batcher),
        )
        learner.fit(*loaders, DataLoader(splits.test, splits.batcher))
    learned = learner.metric_log.history.standings["test"]["accuracy"].last

    by_hand = script.train()["accuracy"]

    # 359 test images: near 0.975 the standard error of one accuracy is 0.008, of the difference of
    # two 0.012
    assert abs(by_hand - learned) < 3 * 0.012
    assert by_hand >= 0.95


def test_every_gradient_is_used_once_and_by_the_part_it_belongs_to(script, monkeypatch):
    steps: list[tuple[float, tuple[str, ...]]] = []
    step = Optimizer.step

    def recorded(self: Optimizer, lr: float, model: Classifier, gradients: Gradients) -> Classifier:
        steps.append((lr, tuple(gradients)))
        return step(self, lr, model, gradients)

    monkeypatch.setattr(Optimizer, "step", recorded)
    script.train(num_epochs=1)

    lr = 2e-3  # the cosine's first value
    assert steps[:3] == [
        (lr / 2, ("network.layers.1.weight", "network.layers.1.bias")),
        (lr * 2, ("network.layers.5.bias",)),
        (lr, ("network.layers.3.weight", "network.layers.3.bias", "network.layers.5.weight")),
    ]
    assert len(steps) == 3 * 21
