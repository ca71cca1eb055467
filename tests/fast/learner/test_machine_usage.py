"""Readings of the machine: what the clocks and the memory say, and what they cost."""

import types
from pathlib import Path

import pytest
import torch

from andiron.learner.extras import throughput as usage
from andiron.learner.extras.throughput import Usage
from andiron.plain.memory import GIB

ON_LINUX = pytest.mark.skipif(not usage.STATM.exists(), reason="needs /proc")


def set_clocks(monkeypatch, *, process, wall):
    clocks = types.SimpleNamespace(
        process_time=iter(process).__next__, perf_counter=iter(wall).__next__
    )
    monkeypatch.setattr(usage, "time", clocks)


def test_processor_time_is_counted_since_the_last_reading(monkeypatch):
    set_clocks(monkeypatch, process=[1.0, 4.0, 4.5], wall=[10.0, 12.0, 14.0])
    readings = Usage(torch.device("cpu"))

    assert readings.readings()["system/cpu_percent"] == 150.0  # three seconds of processor in two
    assert readings.readings()["system/cpu_percent"] == 25.0


@ON_LINUX
def test_memory_is_what_the_system_says_of_the_process():
    status = dict(
        line.split(":\t", 1)
        for line in Path("/proc/self/status").read_text().splitlines()
        if ":\t" in line
    )
    said = int(status["VmRSS"].split()[0]) / 2**20  # KiB
    assert Usage(torch.device("cpu")).readings()["system/memory_gib"] == pytest.approx(
        said, abs=0.01
    )  # read a moment later


def test_without_proc_the_peak_is_reported_under_a_name_of_its_own(monkeypatch):
    monkeypatch.setattr(usage, "STATM", Path("/no/such/file"))
    result = Usage(torch.device("cpu")).readings()
    assert set(result) == {"system/cpu_percent", "system/memory_peak_gib"}
    assert result["system/memory_peak_gib"] == pytest.approx(peak_by_resource(), abs=0.01)


def peak_by_resource():
    resource = pytest.importorskip("resource")
    in_bytes = usage.sys.platform == "darwin"
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if in_bytes else 1024) / GIB


def pretend_gpu(monkeypatch, utilization):
    """torch.cuda as a machine with a GPU would answer."""
    stats = {"allocated_bytes": {"all": {"current": 3 * GIB // 2, "peak": 5 * GIB}}}
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", lambda device: stats)
    monkeypatch.setattr(torch.cuda, "utilization", utilization)
    return {
        key: value
        for key, value in Usage(torch.device("cuda:0")).readings().items()
        if "gpu" in key
    }


def test_of_a_gpu_memory_and_utilisation_are_reported(monkeypatch):
    assert pretend_gpu(monkeypatch, lambda device: 87) == {
        "system/gpu_memory_gib": 1.5, "system/gpu_memory_peak_gib": 5.0, "system/gpu_percent": 87.0,
    }  # fmt: skip


class NVMLError(Exception):
    pass


@pytest.mark.parametrize("refusal", [
    ModuleNotFoundError("no pynvml"), RuntimeError("no driver"), NVMLError("not supported"),
])  # fmt: skip
def test_where_the_library_does_not_answer_the_utilisation_is_missing(monkeypatch, refusal):
    def utilization(device):
        raise refusal

    monkeypatch.setitem(usage.sys.modules, "pynvml", types.SimpleNamespace(NVMLError=NVMLError))
    result = pretend_gpu(monkeypatch, utilization)
    assert set(result) == {"system/gpu_memory_gib", "system/gpu_memory_peak_gib"}


@pytest.mark.gpu
def test_what_torch_keeps_of_a_gpus_memory_has_the_numbers_read_here():
    device = torch.device("cuda", torch.cuda.current_device())
    taken = torch.ones(2**20, device=device)
    result = Usage(device).readings()
    assert result["system/gpu_memory_gib"] == torch.cuda.memory_allocated(device) / GIB
    assert result["system/gpu_memory_peak_gib"] == torch.cuda.max_memory_allocated(device) / GIB
    assert result["system/gpu_memory_gib"] >= taken.nbytes / GIB
