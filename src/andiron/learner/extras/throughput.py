"""The speed of a window, and this process's use of the machine: processor, memory, GPU."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from andiron.distributed import ALONE, World
from andiron.plain.memory import GIB
from andiron.protocols import Values

STATM = Path("/proc/self/statm")  # in pages; the second number is resident memory
SECONDS_BETWEEN_READINGS = 1.0  # of the machine: one at every log point would slow down a tiny step
SHARED = ("time/step", "time/samples_per_second")  # readings that all processes share


class Throughput:
    """Times the open window and epoch, and reads the machine's usage."""

    def __init__(self, device: torch.device, world: World = ALONE):
        self._world = world
        self._closed_seconds = 0.0  # of training, before the open epoch
        self._is_open = False
        self._window_started = self._epoch_started = 0.0
        self._exchanged = world.waited  # at the last reading
        self._usage, self._usage_read = Usage(device), time.perf_counter()
        self.batches = self.updates = 0  # of the open window; of skipped updates none
        self.waited = 0.0  # seconds, for these batches

    def start_epoch(self) -> None:
        """Starts timing an epoch and its first window."""
        self._epoch_started = self._window_started = time.perf_counter()
        self._is_open = True

    def close_window(self, samples_per_batch: float) -> Values:
        """`time/...` of the window, `system/...` at most once a second; empty without updates.

        Readings of other processes end with `/rank1` and so on.
        """
        now, updates, waited = time.perf_counter(), self.updates, self.waited
        samples = self.batches * samples_per_batch
        self.batches, self.updates, self.waited = 0, 0, 0.0
        seconds, self._window_started = now - self._window_started, now
        if not updates:
            return {}
        readings = {
            "time/step": seconds / updates,
            "time/data": waited / seconds,
            "time/samples_per_second": samples / seconds,
        }
        if now - self._usage_read >= SECONDS_BETWEEN_READINGS:
            self._usage_read = now
            readings |= self._usage.readings()
        return readings if self._world.size == 1 else self._of_ranks(readings, seconds)

    def _of_ranks(self, readings: Values, seconds: float) -> Values:
        """The readings of all processes, with the share of time in exchanges between them."""
        exchanged, self._exchanged = self._world.waited - self._exchanged, self._world.waited
        readings = {**readings, "time/exchange": exchanged / seconds}
        first, *others = self._world.gathered(readings)
        return first | {
            f"{name}/rank{rank}": value
            for rank, of_rank in enumerate(others, start=1)
            for name, value in of_rank.items()
            if name not in SHARED
        }

    @contextmanager
    def halted(self) -> Iterator[None]:
        """Excludes the time of the body from the window, the epoch and the training time."""
        started, waited = time.perf_counter(), self._world.waited
        yield
        seconds = time.perf_counter() - started
        self._exchanged += self._world.waited - waited
        self._window_started += seconds
        self._epoch_started += seconds

    def resume(self, training_seconds: float, batches: int, updates: int) -> None:
        """Continues from an earlier process's training time and open window."""
        self._closed_seconds, self.batches, self.updates = training_seconds, batches, updates

    def close_epoch(self) -> None:
        """Ends the training time of an epoch."""
        self._closed_seconds, self._is_open = self.training_seconds, False

    @property
    def training_seconds(self) -> float:
        """Seconds of training so far, also in the open epoch; validations are left out."""
        now = time.perf_counter() if self._is_open else self._epoch_started
        return self._closed_seconds + now - self._epoch_started

    @property
    def seconds_of_epoch(self) -> float:
        """Seconds of the last epoch, up to its last log point."""
        return self._window_started - self._epoch_started


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
    refused = ImportError, RuntimeError, *([library.NVMLError] if library else [])
    try:
        torch.cuda.utilization(device)
    except refused:
        return False
    return True
