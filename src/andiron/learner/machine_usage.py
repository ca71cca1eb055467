"""This process's use of the machine: processor, memory, GPU."""

import ctypes
import functools
import os
import sys
import time
from pathlib import Path

import torch

STATM = Path("/proc/self/statm")  # in pages; the second number is resident memory
GIB = 2**30
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h


@functools.cache
def keep_freed_memory() -> None:
    """Lets glibc keep up to 1 GiB of freed memory for the next update.

    To return it and get it again costs a page fault for every 4 KiB. If the environment sets
    malloc's options, those hold.
    """
    is_set = any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ)
    if sys.platform != "linux" or is_set:
        return
    if set_option := getattr(ctypes.CDLL(None), "mallopt", None):  # musl has none
        set_option(M_TRIM_THRESHOLD, GIB)
        set_option(M_MMAP_THRESHOLD, 2**25)  # larger tensors are still returned at once


class Usage:
    """Reads this process's use of the machine; on a CPU a call takes less than 100 us."""

    def __init__(self, device: torch.device):
        self.device = device
        self._has_utilisation = _has_utilisation(self.device)
        self._read = (time.process_time(), time.perf_counter())

    def readings(self) -> dict[str, float]:
        """Percent of one core since the last reading (two busy cores are 200), and GiB.

        Values that cannot be read are missing. GPU memory is that of tensors, now and at its peak.
        `gpu_percent` counts all processes and needs pynvml.
        """
        usage = {"system/cpu_percent": self._cpu_percent(), **_memory(), **_gpu_memory(self.device)}
        if self._has_utilisation:
            usage["system/gpu_percent"] = float(torch.cuda.utilization(self.device))
        return usage

    def _cpu_percent(self) -> float:
        (busy, clock), self._read = self._read, (time.process_time(), time.perf_counter())
        return 100 * (self._read[0] - busy) / (self._read[1] - clock)


def _memory() -> dict[str, float]:
    """Resident memory now; without /proc (macOS) its peak so far."""
    if STATM.exists():
        pages = int(STATM.read_bytes().split()[1])
        return {"system/memory_gib": pages * os.sysconf("SC_PAGE_SIZE") / GIB}
    if sys.platform == "win32":
        return {}
    import resource  # here: Windows has none

    unit = 1 if sys.platform == "darwin" else 1024  # bytes; elsewhere KiB
    return {
        "system/memory_peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / GIB
    }


def _gpu_memory(device: torch.device) -> dict[str, float]:
    if device.type == "cuda":
        # the nested form: memory_allocated() flattens and sorts a hundred numbers for one
        allocated = torch.cuda.memory_stats_as_nested_dict(device)["allocated_bytes"]["all"]
        return {
            "system/gpu_memory_gib": allocated["current"] / GIB,
            "system/gpu_memory_peak_gib": allocated["peak"] / GIB,
        }
    if device.type == "mps":
        return {"system/gpu_memory_gib": torch.mps.current_allocated_memory() / GIB}
    return {}


def _has_utilisation(device: torch.device) -> bool:
    """Whether NVIDIA's library is installed and answers; under MIG it does not."""
    if device.type != "cuda":
        return False
    library = sys.modules.get("pynvml")  # torch.cuda imports it where it is installed
    refused: tuple[type[Exception], ...] = (
        ImportError,
        RuntimeError,
        *([library.NVMLError] if library else []),
    )
    try:
        torch.cuda.utilization(device)
    except refused:
        return False
    return True
