"""The graph of a model, and the features that it gives to its last layer."""

import pytest
import torch
from torch import nn

import small_digits
from andiron import inference
from andiron.data import Batch
from andiron.errors import MismatchError
from andiron.tasks import Classifier
from andiron_lab.adversarial import AdversarialOutput
from andiron_lab.views.embeddings import embeddings
from andiron_lab.views.model_graph import operations


class Residual(nn.Module):
    """One layer used twice, an addition, and a decision on a value."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(4, 4)])
        self.head = nn.Linear(4, 3)

    def forward(self, inputs):
        first = self.blocks[0](inputs).relu_()
        second = self.blocks[0](first)
        return self.head(first + second) if second.sum() < 1e9 else first


def test_edges_lead_from_each_operation_to_those_that_use_its_tensors():
    model = Classifier(Residual())
    batch = Batch(torch.ones(1, 4), torch.tensor([2]))
    with torch.no_grad():
        model.valid_step(batch)  # the first outputs are looked at
        result = operations(model, model.valid_step, batch)
    linear = "Linear[blocks.0]/linear"
    assert [(value.name, value.inputs) for value in result if value.kind not in ("sum", "lt")] == [
        ("inputs", []),
        ("targets", []),
        (linear, ["inputs"]),
        ("relu", [linear]),
        (f"{linear}_1", ["relu"]),
        ("add", ["relu", f"{linear}_1"]),
        ("Linear[head]/linear", ["add"]),
        ("cross_entropy", ["Linear[head]/linear", "targets"]),
    ]
    assert result[2].weights == "network.blocks.0.weight [4, 4], network.blocks.0.bias [4]"
    assert (result[2].shapes, result[-1].shapes) == ([[1, 4]], [[]])


def test_features_are_what_the_last_linear_layer_takes():
    model = small_digits.classifier()
    _, valid, _ = small_digits.loaders()
    shown = embeddings(model, valid, 10, [f"digit {n}" for n in range(10)])
    network = model.network
    with inference.valid(network):
        batches = [*valid.epoch(0)][:2]
        expected = torch.cat([network.head[:-1](network.features(b.inputs)) for b in batches])
        predicted = torch.cat([network(batch.inputs) for batch in batches]).argmax(-1)
    assert torch.equal(shown.features, expected[:10])
    targets = torch.cat([batch.targets for batch in batches])[:10].tolist()
    assert shown.columns == {
        "sample": [*map(str, range(10))], "target": [f"digit {n}" for n in targets],
        "predicted": [f"digit {n}" for n in predicted[:10].tolist()],
    }  # fmt: skip
    assert shown.pictures.shape == (1, 24, 32) and shown.picture_size == (8, 8)  # in 4 columns
    assert model.training


class Generator(nn.Module):
    def valid_step(self, batch):
        nothing = torch.zeros(0)
        return AdversarialOutput(torch.tensor(0.0), torch.tensor(0.0), nothing, nothing, 1)


def test_a_model_without_features_of_each_sample_has_no_embeddings():
    with pytest.raises(MismatchError, match=r"^Generator gives no features of each sample; leave"):
        embeddings(Generator(), small_digits.loaders()[1], 10)
