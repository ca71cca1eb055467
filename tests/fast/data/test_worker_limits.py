"""Worker processes that this machine cannot run are refused before any is started."""

import resource

import pytest
import torch

from andiron.data import ArrayBatcher, ArrayDataset, DataLoader
from andiron.data.loading import worker_limits


def limited(monkeypatch, cores, **limits):
    monkeypatch.setattr(worker_limits.processor, "cores", lambda: cores)
    monkeypatch.setattr(worker_limits, "_limit", limits.get)


def test_the_bound_is_the_least_of_cores_files_and_processes(monkeypatch):
    limited(monkeypatch, 4)
    assert worker_limits.problem(32) is None
    assert worker_limits.problem(33) == (
        "num_workers=33: at most 32 can run here, where there are 4 processor cores; lower it"
    )
    limited(monkeypatch, 4, RLIMIT_NOFILE=64)
    assert worker_limits.problem(2) is None and "64 open files" in worker_limits.problem(3)
    limited(monkeypatch, 4, RLIMIT_NOFILE=20)
    assert worker_limits.problem(0) is None and "at most 0" in worker_limits.problem(1)
    limited(monkeypatch, 4, RLIMIT_NPROC=40)
    assert "at most 10 can run" in worker_limits.problem(11)


def test_a_limit_is_that_of_this_process():
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = worker_limits._limit("RLIMIT_NOFILE")
    assert found == (None if soft == resource.RLIM_INFINITY else soft)


def test_a_loader_with_too_many_workers_is_refused():
    with pytest.raises(ValueError, match="num_workers=100000: at most"):
        DataLoader(
            ArrayDataset(torch.ones(2, 1), torch.ones(2)), ArrayBatcher(), num_workers=100000
        )
