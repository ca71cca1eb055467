"""The buffers of a model whose batch is computed in slices."""

import pytest
import torch
from torch import nn

from andiron.errors import MismatchError
from andiron.optim.divided.sliced_mean import RunningStatistics


class Counting(nn.Module):
    def __init__(self, *, in_place):
        super().__init__()
        self.in_place = in_place
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, inputs):
        if self.in_place:
            self.seen += len(inputs)
        else:
            self.seen = self.seen + len(inputs)
        return inputs


@pytest.mark.parametrize(("changing", "name"), [
    (Counting(in_place=True), "0.seen"),
    (Counting(in_place=False), "0.seen"),
    (nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)), "0.parametrizations.weight.0._"),
])  # fmt: skip
def test_a_buffer_that_a_step_changes_is_refused_by_name(changing, name):
    model = nn.Sequential(changing, nn.BatchNorm1d(3))
    statistics = RunningStatistics(model)
    model(torch.randn(4, 3))
    with pytest.raises(MismatchError, match=f"buffer '{name}.*is changed by a training step"):
        statistics.of_slice()


def test_running_statistics_are_put_back_after_a_slice():
    model = nn.Sequential(nn.BatchNorm1d(3), nn.InstanceNorm1d(3, track_running_stats=True)).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    statistics = RunningStatistics(model)
    model(torch.randn(4, 3, 5))
    assert set(statistics.of_slice()) == set(statistics.tensors) and len(statistics.tensors) == 4
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
