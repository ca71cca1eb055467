"""A network whose output does not fit the data is refused at the first step, by type or number."""

import re
from collections import namedtuple
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from andiron import errors
from andiron.data import Batch
from andiron.tasks import BinaryClassifier, Classifier, MultiLabelClassifier, Regressor

BATCH = Batch(torch.zeros(5, 4), torch.tensor([0, 1, 2, 1, 0]))
VALUES = Batch(torch.zeros(5, 4), torch.zeros(5, 2))
YES = Batch(torch.zeros(5, 4), torch.zeros(5, dtype=torch.long))
Outputs = namedtuple("GoogLeNetOutputs", "logits aux")


class Wrapping(nn.Module):
    """A network whose output is `wrap` of the logits."""

    def __init__(self, wrap, outputs=3):
        super().__init__()
        self.layer, self.wrap = nn.Linear(4, outputs), wrap

    def forward(self, inputs):
        return self.wrap(self.layer(inputs))


@pytest.mark.parametrize("outputs", [1000, 4, 2, 1])
def test_another_number_of_outputs_than_classes_is_refused_in_training(outputs):
    task = Classifier(nn.Linear(4, outputs), num_classes=3)
    message = (
        f"the network gives {outputs} outputs, and the data has 3 classes; give it 3 outputs "
        "(model.num_classes=3, or the size of the last layer of your own network), or allow it "
        f"with +task.num_classes={outputs}"
    )
    for targets in (BATCH.targets, torch.full((5, 3), 1 / 3)):
        with pytest.raises(errors.MismatchError, match=f"^{re.escape(message)}$"):
            task.train_step(Batch(BATCH.inputs, targets))


def test_a_trained_network_and_one_without_a_known_number_of_classes_are_used():
    trained = Classifier(nn.Linear(4, 1000), num_classes=3).eval()
    assert trained.valid_step(BATCH).output.shape == (5, 1000)
    for num_classes in (None, 1000):
        task = Classifier(nn.Linear(4, 1000), num_classes=num_classes)
        assert task.train_step(BATCH).item.output.shape == (5, 1000)


@pytest.mark.parametrize("wrap, kind, part", [
    (lambda logits: SimpleNamespace(logits=logits), "SimpleNamespace", "its .logits"),
    (lambda logits: Outputs(logits, logits), "GoogLeNetOutputs", "its .logits"),
    (lambda logits: {"out": logits}, "dict", "one of its tensors"),
    (lambda logits: (logits, None), "tuple", "one of its tensors"),
])  # fmt: skip
def test_an_output_that_is_no_tensor_is_refused_by_its_type(wrap, kind, part):
    message = f"the network Wrapping returned {kind}, not a tensor: .* returns {part}$"
    for task, batch in (
        (Classifier, BATCH), (Regressor, VALUES), (MultiLabelClassifier, VALUES),
        (BinaryClassifier, YES),
    ):  # fmt: skip
        for step in ("train_step", "valid_step"):
            with pytest.raises(errors.MismatchError, match=message):
                getattr(task(Wrapping(wrap)), step)(batch)


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_regression_with_another_number_of_values_is_refused(outputs):
    with pytest.raises(errors.DataError, match=rf"gives \[5, {outputs}\] for targets \[5, 2\]"):
        Regressor(nn.Linear(4, outputs)).train_step(VALUES)
