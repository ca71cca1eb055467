"""A data set in memory: its samples by index, one or many at a time."""

import jaxtyping
import pytest
import torch

from andiron.data import ArrayDataset

INPUTS = torch.arange(7 * 3, dtype=torch.uint8).view(7, 1, 3)
TARGETS = torch.tensor([3, 1, 4, 1, 5, 9, 2])


@pytest.mark.parametrize(
    "indices", [[5, 0, 0, 3], torch.tensor([5, 0, 0, 3])], ids=["list", "tensor"]
)
def test_a_gather_is_the_samples_at_the_indices_in_their_order(indices):
    inputs, targets = ArrayDataset(INPUTS, TARGETS).__getitems__(indices)
    expected = [[[15, 16, 17]], [[0, 1, 2]], [[0, 1, 2]], [[9, 10, 11]]]
    assert torch.equal(inputs, torch.tensor(expected, dtype=torch.uint8))
    assert targets.tolist() == [9, 3, 3, 1]


def test_one_sample_is_the_row_of_a_gather():
    dataset = ArrayDataset(INPUTS, TARGETS)
    gathered = dataset.__getitems__(range(7))
    for index in range(7):
        one = dataset[index]
        assert torch.equal(one.inputs, gathered.inputs[index])
        assert torch.equal(one.targets, gathered.targets[index])


def test_a_gather_shares_no_memory_with_the_data_set():
    dataset = ArrayDataset(INPUTS.clone(), TARGETS)
    dataset.__getitems__(range(7)).inputs.zero_()
    assert torch.equal(dataset.inputs, INPUTS)


def test_a_subset_of_a_subset_is_the_subset_at_the_composed_indices():
    dataset, outer, inner = (
        ArrayDataset(INPUTS, TARGETS), torch.tensor([6, 2, 4, 1, 0]), torch.tensor([3, 0, 2]),
    )  # fmt: skip
    twice, once = dataset.subset(outer).subset(inner), dataset.subset(outer[inner])
    assert len(twice) == 3
    assert torch.equal(twice.inputs, once.inputs)
    assert torch.equal(twice.targets, once.targets)


def test_the_same_samples_lie_in_the_memory_of_the_device():
    moved = ArrayDataset(INPUTS, TARGETS).to(torch.device("meta"))
    assert (moved.inputs.device.type, moved.targets.device.type) == ("meta", "meta")
    assert (moved.inputs.shape, moved.inputs.dtype) == (INPUTS.shape, INPUTS.dtype)


def test_inputs_without_a_target_each_are_refused(monkeypatch):
    # as in a run, where no shape is checked
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match="^7 inputs but 6 targets; each input needs one$"):
        ArrayDataset(INPUTS, TARGETS[:6])
