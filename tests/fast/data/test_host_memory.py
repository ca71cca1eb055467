"""Processes of a host map the same memory, and keep their own where that cannot be had."""

import os
import sys

import pytest
import torch
from threaded_world import in_threads

from andiron.data import ArrayDataset
from andiron.data.loading.host_memory import LARGE_BYTES, map_once

ROWS = LARGE_BYTES // 8

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's memfd_create")


def dataset():
    inputs = torch.arange(2 * ROWS, dtype=torch.float64).reshape(ROWS, 2)
    return ArrayDataset(inputs, torch.arange(ROWS))


def mapped(world):
    made = dataset()
    map_once([made, made], world)
    return made


def mapping(tensor):
    """The line of the system's table for the memory of a tensor."""
    address = tensor.data_ptr()
    with open("/proc/self/maps", encoding="ascii") as lines:
        for line in lines:
            start, end = (int(bound, 16) for bound in line.split()[0].split("-"))
            if start <= address < end:
                return line
    raise AssertionError(f"{address:x} is not mapped")


@linux
@pytest.mark.parametrize("size", [2, 3])
def test_large_tensors_lie_in_the_memory_of_the_first_process(size):
    open_before = len(os.listdir("/proc/self/fd"))

    made = in_threads(mapped, size)

    files = {
        mapping(tensor).split()[4] for value in made for tensor in (value.inputs, value.targets)
    }
    assert len(files) == 1 and "0" not in files  # the inode
    assert all("andiron-data" in mapping(value.inputs) for value in made)
    for value in made:
        assert torch.equal(value.inputs, dataset().inputs)
        assert torch.equal(value.targets, dataset().targets)
    assert len(os.listdir("/proc/self/fd")) == open_before


@linux
def test_what_a_process_writes_is_its_own():
    first, second = in_threads(mapped, 2)

    first.inputs[0] = -1

    assert second.inputs[0].tolist() == [0, 1]


@linux
def test_without_the_memory_tensors_stay_where_they_are(monkeypatch):
    def full(*_):
        raise OSError("no memory")

    monkeypatch.setattr(os, "posix_fallocate", full)

    made = in_threads(mapped, 2)

    assert all("andiron-data" not in mapping(value.inputs) for value in made)
    assert all(torch.equal(value.inputs, dataset().inputs) for value in made)


@linux
def test_small_tensors_and_parameters_stay_where_they_are():
    def act(world):
        made = dataset().subset(range(10))
        made.weights = torch.nn.Parameter(torch.zeros(ROWS, 2))
        map_once([made], world)
        return made

    for made in in_threads(act, 2):
        assert "andiron-data" not in mapping(made.inputs) + mapping(made.weights)
