"""The targets of a data set and the classes they are, whichever way there is to them."""

import pytest
import torch

from andiron.data.composed import composed_datasets
from andiron.data.dataset import ArrayDataset
from andiron.data.on_disk.stored import StoredArray, StoredDataset, StoredFile
from andiron.data.composed.composed_datasets import Mapped, Partial

INPUTS = torch.arange(9 * 2, dtype=torch.uint8).view(9, 2)
TARGETS = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6, -100])


def stored(folder):
    """The samples in a file, those at 1 to 8."""
    path = folder / "samples"
    path.write_bytes(INPUTS.numpy().tobytes() + TARGETS.numpy().tobytes())
    file = StoredFile(path)
    inputs = StoredArray(file, "inputs", 0, torch.uint8, (9, 2))
    return StoredDataset(inputs, StoredArray(file, "targets", 18, torch.int64, (9,)), range(1, 9))


@pytest.mark.parametrize("at_once", [1, 3, 1024])
def test_targets_in_memory_in_a_file_and_of_a_view_are_the_same(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(composed_datasets, "SAMPLES_AT_ONCE", at_once)
    whole = ArrayDataset(INPUTS, TARGETS)
    for dataset in (
        whole.subset(range(1, 9)),
        stored(tmp_path),
        Partial(Mapped(whole, lambda raw: raw), range(1, 9)),
    ):
        assert torch.equal(torch.cat([*composed_datasets.targets_of(dataset)]), TARGETS[1:])
        assert torch.equal(composed_datasets.classes_of(dataset), TARGETS[1:])


def test_the_targets_of_a_file_are_read_without_the_inputs(tmp_path, monkeypatch):
    dataset, read = stored(tmp_path), []
    original = StoredArray.read
    monkeypatch.setattr(
        StoredArray,
        "read",
        lambda array, indices: read.append(array.name) or original(array, indices),
    )

    composed_datasets.classes_of(dataset)
    assert read == ["targets"]


@pytest.mark.parametrize(
    "targets", [TARGETS.float(), TARGETS[:, None].expand(-1, 3)], ids=["numbers", "sequences"]
)
def test_targets_that_are_no_classes_are_all_of_one(targets):
    assert composed_datasets.classes_of(ArrayDataset(INPUTS, targets)).tolist() == [0] * 9


def test_classes_of_bytes_and_booleans_are_counted_as_whole_numbers():
    for dtype in (torch.uint8, torch.bool):
        classes = composed_datasets.classes_of(ArrayDataset(INPUTS, TARGETS.clamp(0, 1).to(dtype)))
        assert (classes.dtype, classes.tolist()) == (torch.int64, [1, 1, 1, 1, 1, 1, 1, 1, 0])
