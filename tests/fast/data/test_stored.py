"""A data set that stays in its file: the same samples as in memory, and never more of them in
memory than a batch.
"""

import copy
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import jaxtyping
import pytest
import torch

from andiron import errors
from andiron.data import ArrayDataset, DataLoader
from andiron.data.batchers import ArrayBatcher
from andiron.data.on_disk.stored import StoredArray, StoredDataset, StoredFile
from refusals import message_of

INPUTS = torch.arange(23 * 6, dtype=torch.float32).view(23, 2, 3).sin()
TARGETS = torch.arange(23) * 5 % 7
IN_MEMORY = ArrayDataset(INPUTS, TARGETS)
HEAD = b"head of the file"


@pytest.fixture
def path(tmp_path):
    """Inputs and targets one after the other, behind a head."""
    file = tmp_path / "samples.bin"
    file.write_bytes(HEAD + INPUTS.numpy().tobytes() + TARGETS.numpy().tobytes())
    return file


def stored(path):
    file = StoredFile(path)
    inputs = StoredArray(file, "inputs", len(HEAD), torch.float32, (23, 2, 3))
    return StoredDataset(
        inputs, StoredArray(file, "targets", len(HEAD) + INPUTS.nbytes, torch.int64, (23,))
    )


def same(one, other):
    return (
        len(one) == len(other)
        and all(map(torch.equal, one, other))
        and [t.dtype for t in one] == [t.dtype for t in other]
    )


@pytest.mark.parametrize(
    "indices",
    [[5, 0, 0, 22], torch.tensor([3, 4, 5, 9, 10, 2, 1]), range(23), [], [22]],
    ids=["list", "tensor with runs", "all", "none", "last"],
)
def test_a_batch_is_that_of_the_same_samples_in_memory(path, indices):
    indices = torch.tensor([], dtype=torch.int64) if indices == [] else indices
    assert same(stored(path).__getitems__(indices), IN_MEMORY.__getitems__(indices))
    assert same(stored(path)[17], IN_MEMORY[17])


def test_a_subset_of_a_subset_has_the_samples_that_it_has_in_memory(path):
    outer, inner = torch.tensor([6, 2, 4, 1, 0]), torch.tensor([3, 0, 2])
    subset, reference = (
        dataset.subset(outer).subset(inner) for dataset in (stored(path), IN_MEMORY)
    )
    assert len(subset) == 3
    assert same(subset.__getitems__(range(3)), reference.__getitems__(range(3)))


def test_a_subset_copies_no_sample(path):
    dataset = stored(path)
    subset = dataset.subset([1, 2])
    assert (subset.inputs, subset.targets) == (dataset.inputs, dataset.targets)


def test_what_is_read_is_the_readers_own(path):
    dataset, before = stored(path), path.read_bytes()
    dataset.__getitems__(range(23)).inputs.zero_()
    assert path.read_bytes() == before
    assert same(dataset.__getitems__(range(23)), IN_MEMORY.__getitems__(range(23)))


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int16, torch.bfloat16, torch.float16, torch.int32]
)
def test_rows_have_the_type_and_the_bytes_of_the_file(tmp_path, dtype):
    values = (torch.arange(21).view(7, 3) % 2).to(dtype)
    (tmp_path / "x").write_bytes(values.view(torch.uint8).numpy().tobytes())
    array = StoredArray(StoredFile(tmp_path / "x"), "x", 0, dtype, (7, 3))
    assert torch.equal(array.read([6, 0, 1]), values[[6, 0, 1]])
    assert torch.equal(torch.cat([rows for _, rows in array.chunks()]), values)


def test_what_few_devices_have_becomes_what_all_have(tmp_path):
    doubles, words = (
        torch.tensor([[0.1], [2.5]], dtype=torch.float64),
        torch.tensor([65535, 1], dtype=torch.uint16),
    )
    (tmp_path / "x").write_bytes(doubles.numpy().tobytes() + words.numpy().tobytes())
    file = StoredFile(tmp_path / "x")
    dataset = StoredDataset(
        StoredArray(file, "x", 0, torch.float64, (2, 1)),
        StoredArray(file, "y", 16, torch.uint16, (2,)),
    )
    assert same(dataset.__getitems__([0, 1]), (doubles.float(), torch.tensor([65535, 1])))


@pytest.mark.parametrize("number", [-1, 23])
def test_a_row_that_is_not_there_is_refused(path, number):
    words = f"inputs: rows {min(3, number)} to {max(3, number)} of 23"
    assert message_of(IndexError, stored(path).inputs.read, [3, number]) == words


def test_inputs_without_a_target_each_are_refused(path, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    array = stored(path).inputs
    with pytest.raises(ValueError, match="^23 inputs but 6 targets; each input needs one$"):
        StoredDataset(array, StoredArray(array.file, "targets", 0, torch.int64, (6,)))


@pytest.mark.parametrize(
    "send",
    [copy.deepcopy, lambda sent: pickle.loads(pickle.dumps(sent))],
    ids=["copied", "pickled"],
)
def test_a_sent_data_set_reads_equal_samples_by_its_own_descriptor(path, send):
    dataset = stored(path)
    sent = send(dataset)
    assert sent.inputs.file._descriptor != dataset.inputs.file._descriptor
    assert same(sent.__getitems__(range(23)), IN_MEMORY.__getitems__(range(23)))


def test_a_file_is_closed_with_the_last_that_reads_it(path):
    dataset = stored(path)
    descriptor, part = dataset.inputs.file._descriptor, dataset.subset([3])
    del dataset
    assert same(part[0], IN_MEMORY[3])
    del part
    with pytest.raises(OSError):
        os.fstat(descriptor)


def test_threads_read_at_once_what_each_asked_for(path):
    dataset = stored(path)
    asked = [
        torch.randperm(23, generator=torch.Generator().manual_seed(seed)) for seed in range(200)
    ]
    with ThreadPoolExecutor(max_workers=4) as threads:
        result = list(threads.map(dataset.__getitems__, asked))
    expected = map(IN_MEMORY.__getitems__, asked)
    assert all(map(same, result, expected)) and len(result) == 200


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_stored_data_set_gives_the_same_batches_as_one_in_memory(path, num_workers):
    loaders = [
        DataLoader(dataset, ArrayBatcher(), batch_size=5, shuffle_seed=3, num_workers=workers)
        for dataset, workers in ((stored(path), num_workers), (IN_MEMORY, 0))
    ]
    for epoch in (0, 1):
        assert all(
            same(*batches)
            for batches in zip(*(loader.epoch(epoch) for loader in loaders), strict=True)
        )
    by = "2 worker processes" if num_workers else "a thread ahead of the step"
    assert loaders[0].path == f"gathered by {by}"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_non_finite_number_is_reported_by_array_and_row(tmp_path, value):
    inputs = INPUTS.clone()
    inputs[19, 1, 2] = value
    file = tmp_path / "samples.bin"
    file.write_bytes(HEAD + inputs.numpy().tobytes() + TARGETS.numpy().tobytes())
    part = stored(file).subset([4, 19, 7])
    assert torch.equal(part.__getitems__([0, 2]).inputs, INPUTS[[4, 7]])
    assert message_of(errors.DataError, part.__getitems__, [2, 1]) == (
        f"{file}: 'inputs' has a NaN or infinity in row 19, counted from 0; correct it, or leave "
        "it out"
    )


def test_a_missing_file_is_refused(tmp_path):
    assert message_of(errors.DataError, StoredFile, tmp_path / "none.bin") == (
        f"{tmp_path / 'none.bin'}: cannot be read (No such file or directory); put the file there"
    )


def test_a_file_that_shrank_is_reported_and_ends_no_process(path):
    dataset, size = stored(path), path.stat().st_size
    os.truncate(path, size - 11)  # cuts into the second to last target
    assert torch.equal(dataset.__getitems__([20]).targets, TARGETS[[20]])
    for row, byte in ((21, size - 11), (22, size - 8)):
        assert message_of(errors.DataError, dataset.__getitems__, [3, row]) == (
            f"{path}: has no byte {byte} any more; it had {size} bytes when it was opened: do not "
            "change a file while a run reads it"
        )


def test_a_removed_file_stays_readable_only_where_it_is_open(path):
    dataset = stored(path)
    sent = pickle.dumps(dataset)
    path.unlink()
    assert same(dataset.__getitems__(range(23)), IN_MEMORY.__getitems__(range(23)))
    words = "samples.bin: cannot be read (No such file or directory); put the file there"
    assert message_of(errors.DataError, pickle.loads, sent).endswith(words)


@pytest.mark.parametrize(
    "content", [b"longer than what had been there" * 100, b""], ids=["longer", "empty"]
)
def test_another_file_in_the_place_of_the_sent_file_is_refused(path, content):
    sent = pickle.dumps(stored(path))
    path.write_bytes(content)
    words = f"{path}: changed while a run reads it; start the run again"
    assert message_of(errors.DataError, pickle.loads, sent) == words
