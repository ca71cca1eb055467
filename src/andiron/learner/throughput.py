"""The speed of a window: seconds an update, share spent waiting for data, samples a second."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from andiron.protocols import Values
from andiron.learner.machine_usage import Usage

SECONDS_BETWEEN_READINGS = 1.0  # of the machine: a tiny step would feel one at every log point


class Throughput:
    """Times the open window and epoch, and reads the machine's usage."""

    def __init__(self, device: torch.device):
        self.training_seconds = 0.0  # validation and checkpoints left out
        self._window_started = self._epoch_started = 0.0
        self._usage, self._usage_read = Usage(device), time.perf_counter()

    def start_epoch(self) -> None:
        """Starts the clock of an epoch and of its first window."""
        self._epoch_started = self._window_started = time.perf_counter()

    def close_window(self, updates: int, samples: float, waited: float) -> Values:
        """`time/...` of the window, `system/...` at most once a second; empty without updates.

        `waited` is how many seconds its updates waited for their batches.
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
        return readings

    @contextmanager
    def halted(self) -> Iterator[None]:
        """Leaves the time of the body out of the window, the epoch and the training time."""
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
