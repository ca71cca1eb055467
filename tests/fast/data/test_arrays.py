"""A data set in memory: its samples by index, one or many at a time."""

import copy
import pickle

import jaxtyping
import pytest
import torch

from andiron.data import ArrayDataset, RawBatch
from andiron.data.batchers import ArrayBatcher

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


def test_a_gather_shares_no_memory_with_the_data_set():
    dataset = ArrayDataset(INPUTS.clone(), TARGETS)
    dataset.__getitems__(range(7)).inputs.zero_()
    assert torch.equal(dataset.inputs, INPUTS)


def test_the_same_samples_lie_in_the_memory_of_the_device():
    moved = ArrayDataset(INPUTS, TARGETS).to(torch.device("meta"))
    assert (moved.inputs.device.type, moved.targets.device.type) == ("meta", "meta")
    assert (moved.inputs.shape, moved.inputs.dtype) == (INPUTS.shape, INPUTS.dtype)


def test_inputs_without_a_target_each_are_refused(monkeypatch):
    # as in a run, where no shape is checked
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match="^7 inputs but 6 targets; each input needs one$"):
        ArrayDataset(INPUTS, TARGETS[:6])


CPU = torch.device("cpu")
CLASSES = torch.tensor([1, 0, 2], dtype=torch.uint8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.uint8])
def test_each_column_has_its_mean_and_deviation(dtype):
    raw = RawBatch(torch.tensor([[1, 10], [2, 20], [5, 40]], dtype=dtype), CLASSES)
    batch = ArrayBatcher((1.0, 20.0), (2.0, 4.0))(raw, CPU)
    assert batch.inputs.tolist() == [[0.0, -2.5], [0.5, 0.0], [2.0, 5.0]]
    assert (batch.inputs.dtype, batch.targets.dtype) == (torch.float32, torch.int64)
    assert batch.targets.tolist() == [1, 0, 2]


def test_each_channel_of_an_image_has_its_own_or_all_have_one():
    raw = RawBatch(torch.arange(3 * 2 * 2 * 2, dtype=torch.float32).view(3, 2, 2, 2), CLASSES)
    batch = ArrayBatcher((1.0, 2.0), (2.0, 4.0))(raw, CPU)
    assert torch.equal(batch.inputs[:, 0], (raw.inputs[:, 0] - 1) / 2)
    assert torch.equal(batch.inputs[:, 1], (raw.inputs[:, 1] - 2) / 4)
    assert torch.equal(ArrayBatcher((3.0,), (2.0,))(raw, CPU).inputs, (raw.inputs - 3) / 2)


def test_one_number_a_sample_is_standardised_too():
    batch = ArrayBatcher((3.0,), (2.0,))(RawBatch(torch.tensor([1.0, 3.0, 7.0]), CLASSES), CPU)
    assert batch.inputs.tolist() == [-1.0, 0.0, 2.0]


def test_without_mean_and_deviation_floats_are_as_they_were():
    raw = RawBatch(
        torch.tensor([[0.1], [-3.0], [1e30]]),
        torch.tensor([[0.5], [1.0], [2.0]], dtype=torch.float64),
    )
    batch = ArrayBatcher()(raw, CPU)
    assert torch.equal(batch.inputs, raw.inputs)
    assert torch.equal(batch.targets, torch.tensor([[0.5], [1.0], [2.0]]))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.int64])
def test_other_integers_pass_as_int64(dtype):
    raw = RawBatch(
        torch.tensor([[300, 1], [2, -20], [5, 40]], dtype=dtype), torch.tensor([True, False, True])
    )
    batch = ArrayBatcher((1.0,), (2.0,))(raw, CPU)
    assert torch.equal(batch.inputs, raw.inputs.long())
    assert torch.equal(batch.targets, torch.tensor([1, 0, 1]))


def test_the_stored_samples_stay_as_they_are():
    raw = RawBatch(torch.tensor([[1.0, 10.0]]), torch.tensor([[2.0]]))
    ArrayBatcher((1.0, 20.0), (2.0, 4.0))(raw, CPU).inputs.zero_()
    assert (raw.inputs.tolist(), raw.targets.tolist()) == ([[1.0, 10.0]], [[2.0]])


def test_batchers_are_equal_by_their_numbers_before_and_after_use():
    one, other = ArrayBatcher((1.0, 2.0), (3.0, 4.0)), ArrayBatcher((1.0, 2.0), (3.0, 4.0))
    one(RawBatch(torch.zeros(1, 2), torch.zeros(1)), CPU)
    assert one == other == copy.deepcopy(one) == pickle.loads(pickle.dumps(one))
    assert hash(one) == hash(other)
    assert one != ArrayBatcher((1.0, 2.0), (3.0, 5.0))
