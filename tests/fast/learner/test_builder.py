"""LearnerBuilder reads as in Burn, and refuses parts that do not fit."""

import dataclasses
import inspect

import pytest
import torch
from torch import nn

from andiron import errors
from andiron.checkpoint import AnyOf, KeepBest
from andiron.data import DataLoader, digits
from andiron.learner import LearnerBuilder
from andiron.metrics import Accuracy, Loss, Recall
from andiron.optim import Ema, Optimizer
from andiron.options import LearnerOptions
from andiron.tasks import Classifier
from refusals import message_of


def model():
    return Classifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))


def built(builder, lr=0.1):
    classifier = model()
    return builder.build(classifier, Optimizer(torch.optim.SGD, classifier), lr)


def test_it_reads_as_in_burn_and_leaves_everything_in_its_folder(tmp_path):
    splits = digits(valid=0.1, split_seed=0)
    builder = (
        LearnerBuilder(tmp_path)
        .unrecorded()
        .metric_train_numeric(Loss(), Accuracy())
        .metric_valid_numeric(Accuracy())
        .with_file_checkpointer(KeepBest("accuracy", direction="highest"))
        .devices(["cpu"])
        .options(num_epochs=2, log_every=7, seed=3)
    )
    with built(builder) as learner:
        trained = learner.fit(
            DataLoader(splits.train, splits.batcher, shuffle_seed=3),
            DataLoader(splits.valid, splits.batcher),
        )

    assert trained is learner.model
    options = learner.options
    assert (options.num_epochs, options.log_every, options.seed) == (2, 7, 3)
    assert {path.name for path in tmp_path.iterdir()} == {
        "manifest.json", "status.json", "experiment.log", "metrics.jsonl", "tensorboard",
        "checkpoints",
    }  # fmt: skip
    rows = learner.summary()["metrics"]
    assert [(row["split"], row["metric"]) for row in rows] == [
        ("train", "loss"), ("train", "accuracy"), ("valid", "accuracy"),
    ]  # fmt: skip


def test_the_remedy_of_a_model_without_steps_is_a_task(tmp_path):
    plain = nn.Linear(3, 2)
    optimizer = Optimizer(torch.optim.SGD, plain)
    message = message_of(TypeError, LearnerBuilder(tmp_path).build, plain, optimizer, 0.1)
    assert message.startswith(
        "Linear has no train_step and valid_step; wrap it in a task, such as Classifier"
    )


def test_a_compiled_task_is_refused_because_its_steps_are_not_compiled(tmp_path):
    task = torch.compile(Classifier(nn.Linear(3, 2)))
    optimizer = Optimizer(torch.optim.SGD, task)
    message = message_of(TypeError, LearnerBuilder(tmp_path).build, task, optimizer, 0.1)
    assert message.endswith("compile the network in the task, by network.compile()")


@pytest.mark.parametrize("devices", [[], ["cpu", "cpu"]])
def test_one_device_is_needed(tmp_path, devices):
    message = message_of(errors.DeviceError, LearnerBuilder(tmp_path).devices, devices)
    assert "one device; name one, and start one for each with torchrun" in message


@pytest.mark.parametrize(("metric", "strategy", "words"), [
    (Accuracy(), KeepBest("loss"),
     "checkpoint.metric=loss: not measured on valid; available: accuracy"),
    (Loss(), AnyOf((KeepBest("loss"), KeepBest("f1"))),
     "checkpoint.also_best.f1.metric=f1: not measured"),
])  # fmt: skip
def test_an_unmeasured_checkpoint_metric_is_refused_before_any_write(
    tmp_path, metric, strategy, words
):
    builder = LearnerBuilder(tmp_path / "run").metric_valid_numeric(metric)
    message = message_of(errors.ConfigError, built, builder.with_file_checkpointer(strategy))
    assert words in message and not (tmp_path / "run").exists()


def test_every_option_is_a_keyword_with_the_default_of_its_field(tmp_path):
    given = inspect.signature(LearnerBuilder).parameters
    for field in dataclasses.fields(LearnerOptions):
        assert given[field.name].default == field.default
    assert built(LearnerBuilder(tmp_path).with_writers()).options == LearnerOptions()


def test_an_option_outside_its_range_is_refused(tmp_path):
    reason = "num_epochs=0: should be greater than or equal to 1"
    assert message_of(ValueError, LearnerBuilder, tmp_path, num_epochs=0).startswith(reason)
    change = LearnerBuilder(tmp_path).options
    assert message_of(ValueError, change, num_epochs=0).startswith(reason)


@pytest.mark.parametrize("metric, split", [("loss", "valid-ema"), ("recall/3", "valid")])
def test_the_best_checkpoint_may_wait_for_an_average_or_a_part(tmp_path, metric, split):
    way = "lowest" if metric == "loss" else "highest"
    builder = (
        LearnerBuilder(tmp_path).with_writers().metric_valid_numeric(
            Loss(), Recall(average="none"),
        ).averages(ema=Ema(decay=0.9)).with_file_checkpointer(KeepBest(metric, split, way))
    )  # fmt: skip
    assert built(builder).checkpointer is not None
