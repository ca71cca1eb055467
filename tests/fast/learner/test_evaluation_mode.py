"""Networks with BatchNorm: one in evaluation mode is named, a batch of one sample refused."""

import pytest
import torch
from torch import nn

from andiron import errors
from andiron.data import ArrayBatcher, ArrayDataset, DataLoader
from andiron.learner import LearnerBuilder
from andiron.tasks import Classifier


def flat():
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 3))


def fit(network, number):
    samples = ArrayDataset(torch.randn(number, 4), torch.arange(number) % 3)
    loader = DataLoader(samples, ArrayBatcher(), batch_size=4)
    model = Classifier(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    builder = LearnerBuilder(num_epochs=1).renderer(None).unrecorded().with_writers()
    with builder.build(model, optimizer) as learner:
        learner.fit(loader, loader)


def test_a_network_left_in_evaluation_mode_is_named_and_a_frozen_layer_is_not(caplog):
    network = flat()
    network[1].eval()
    fit(network, 8)
    assert "evaluation mode" not in caplog.text
    fit(flat().eval(), 8)
    assert "network trains in evaluation mode: no dropout" in caplog.text


def test_a_batch_of_one_sample_is_refused_in_torchs_words():
    with pytest.raises(errors.MismatchError, match="more than 1 value per channel.* batch_size"):
        fit(flat(), 9)
