"""The speed of a window: seconds an update, share spent waiting for data, samples a second."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from andiron.distributed import ALONE, World
from andiron.learner.machine_usage import Usage
from andiron.protocols import Values

SECONDS_BETWEEN_READINGS = 1.0  # of the machine: one at every log point would slow down a tiny step
SHARED = ("time/step", "time/samples_per_second")  # readings that all processes share


class Throughput:
    """Times the open window and epoch, and reads the machine's usage."""

    def __init__(self, device: torch.device, world: World = ALONE):
        self._world = world
        self.training_seconds = 0.0  # validation and checkpoints left out
        self._window_started = self._epoch_started = 0.0
        self._usage, self._usage_read = Usage(device), time.perf_counter()

    def start_epoch(self) -> None:
        """Starts timing an epoch and its first window."""
        self._epoch_started = self._window_started = time.perf_counter()

    def close_window(self, updates: int, samples: float, waited: float) -> Values:
        """`time/...` of the window, `system/...` at most once a second; empty without updates.

        `waited` is how many seconds its updates waited for their batches. Readings of other
        processes end with `/rank1` and so on.
        """
        now = time.perf_counter()
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
        readings = {**readings, "time/exchange": self._world.waited / seconds}
        self._world.waited = 0.0
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
        started = time.perf_counter()
        yield
        seconds = time.perf_counter() - started
        self._window_started += seconds
        self._epoch_started += seconds

    def resume(self, training_seconds: float) -> None:
        """Continues from an earlier process's training time."""
        self.training_seconds = training_seconds

    def close_epoch(self) -> None:
        """Adds the time since the epoch began, here, to the training time."""
        self.training_seconds += time.perf_counter() - self._epoch_started

    @property
    def seconds_of_epoch(self) -> float:
        """Seconds of the last epoch, up to its last log point."""
        return self._window_started - self._epoch_started
