"""Arguments kept for the record: what can be made again is, the rest has a reason."""

import copy
import functools
import math
from dataclasses import dataclass

import pytest
from torch import nn
from torch.nn import functional

from andiron import data, models, recording, tasks
from andiron.checkpoint import checkpointing
from andiron.recording import NotRecordedError, keep_arguments, node_of
from andiron.schedules import Cosine
from andiron.shell.assembly import targets
from andiron.shell.run import metadata
from refusals import message_of

SMALL = {"input_shape": (1, 8, 8), "num_outputs": 10}


@keep_arguments
class Net(nn.Module):
    def __init__(self, hidden, activation=None, *more, **options):
        super().__init__()


class Wider(Net):
    def __init__(self):
        super().__init__(64)


@keep_arguments
@dataclass(frozen=True)
class Value:
    number: int


def reason(value):
    return message_of(NotRecordedError, node_of, value)


def test_a_task_with_its_network_and_loss_is_made_again_from_its_node():
    loss = tasks.CrossEntropy(label_smoothing=0.1)
    task = tasks.Classifier(models.MLP(**SMALL, hidden=[7]), loss)
    again = targets.build("task", node_of(task))
    assert str(again) == str(task) and again.loss.loss.label_smoothing == 0.1
    assert node_of(copy.deepcopy(task)) == node_of(task) == node_of(again)


MADE = [
    lambda: models.MLP(**SMALL), lambda: models.ConvNet((1, 8, 8), 10),
    lambda: models.LeNet((1, 28, 28), 10), lambda: models.ResNet((3, 8, 8), 10),
    lambda: models.GPT(11, 8, dim=8, heads=2, layers=1), lambda: models.Dropout(0.5),
    lambda: tasks.Classifier(models.Dropout(0.5)),
    lambda: tasks.BinaryClassifier(models.Dropout(0.5)),
    lambda: tasks.MultiLabelClassifier(models.Dropout(0.5)),
    lambda: tasks.Regressor(models.Dropout(0.5), target_mean=[2.0]),
    lambda: tasks.LanguageModel(models.Dropout(0.5)), lambda: data.digits(valid=0.1, split_seed=3),
    lambda: data.partial(data.digits(valid=0.1, split_seed=3), fraction=0.5, seed=1),
]  # fmt: skip


@pytest.mark.parametrize("make", MADE)
def test_networks_tasks_and_data_sets_keep_their_arguments(make):
    made = make()
    node = node_of(made)
    again = targets.build("any", node)
    assert node_of(again) == node and type(again) is type(made)


def test_dataclasses_and_functions_are_recorded_as_they_are():
    assert node_of(Cosine(0.1, 100)) == {
        "_target_": "andiron.schedules.Cosine", "initial_lr": 0.1, "num_updates": 100,
        "min_lr": 0.0,
    }  # fmt: skip
    strategy = checkpointing().strategy
    assert node_of(strategy)["strategies"][1]["metric"] == "loss"
    assert node_of(functional.relu) == "torch.nn.functional.relu"
    bound = functools.partial(functional.cross_entropy, label_smoothing=0.1)
    assert node_of(bound)["_partial_"] is True
    bound.note = "keeps partial from merging with another, as hasattr does in 3.12"
    again = functools.partial(bound, ignore_index=2)
    assert node_of(again) == {**node_of(bound), "ignore_index": 2}


def test_a_call_of_a_class_of_another_package_keeps_its_arguments():
    linear = recording.call(nn.Linear, 4, out_features=3, bias=False)
    expected = {"in_features": 4, "out_features": 3, "bias": False}
    assert node_of(linear) == {"_target_": "torch.nn.Linear", **expected}
    assert "bias" not in linear.state_dict() and [*linear.state_dict()] == ["weight"]


def test_what_cannot_be_made_again_has_its_reason():
    assert "arguments of Linear were not kept" in reason(nn.Linear(4, 3))
    assert "a lambda has no name" in reason(Net(3, activation=lambda x: x))
    assert "an object of Linear has no name" in reason(functools.partial(nn.Linear(4, 3), bias=0))
    assert "activation of Net is not annotated" in reason(Net(3, activation=functional.relu))
    assert "was given *more, which have no names" in reason(Net(3, None, 1))
    assert "were not kept" in reason(Net(nn.Linear(4, 3)))

    class Local(nn.Module):
        pass

    assert "Local is defined in a function; move it to a module" in reason(Local())
    Local.__qualname__, Local.__module__ = "Local", "__main__"
    assert "Local is defined in a script or notebook" in reason(Local())


def test_a_subclass_has_arguments_of_its_own():
    assert recording.arguments_of(Wider()) == {}
    assert recording.arguments_of(Net(3, depth=2)) == {"hidden": 3, "depth": 2}
    assert recording.arguments_of(Value(4)) == {"number": 4}


def test_a_rate_that_is_not_on_record_is_no_hyperparameter():
    assert "lr" not in metadata.hyperparameters({})
    assert metadata.hyperparameters({"lr": 0.1, "loss": {"fill": math.nan}}) == {"lr": 0.1}
