"""The speed of a window of updates: seconds an update, time spent waiting for data, samples a second."""

import time
from typing import Any

import torch

from andiron.protocols import Values
from andiron.learner.machine_usage import Usage

SECONDS_BETWEEN_READINGS = 1.0  # of the machine: a tiny step would feel one at every log point


class Throughput:
    """Times the window since the last log point and the epoch under way, and reads the machine's usage."""

    def __init__(self, device: torch.device | None = None):
        self.training_seconds = 0.0  # validation and checkpoints left out
        self._window_started = self._epoch_started = 0.0
        self._waited = 0.0  # seconds
        self._batches = self._updates = 0
        self._usage, self._usage_read = Usage(device), time.perf_counter()

    def start_epoch(self) -> None:
        """Starts the clock of an epoch and of its first window."""
        self._epoch_started = self._window_started = time.perf_counter()

    def waited(self, seconds: float) -> None:
        """Counts time that the step waited for its batches."""
        self._waited += seconds

    def updated(self, num_batches: int) -> None:
        """Counts an update of so many batches."""
        self._batches += num_batches
        self._updates += 1

    def close_window(self, samples_per_batch: float) -> Values:
        """`time/...` of the window, with `system/...` at most once a second; empty without an update."""
        now = time.perf_counter()
        seconds, waited = now - self._window_started, self._waited
        batches, updates = self._batches, self._updates
        self._window_started, self._waited = now, 0.0
        self._batches = self._updates = 0
        if not batches:
            return {}
        return {
            "time/step": seconds / updates,
            "time/data": waited / seconds,
            "time/samples_per_second": batches * samples_per_batch / seconds,
            **self._machine(now),
        }

    def close_epoch(self) -> None:
        """Adds the time since the epoch began, here, to the training time."""
        self.training_seconds += time.perf_counter() - self._epoch_started

    @property
    def seconds_of_epoch(self) -> float:
        """Seconds of the last epoch, up to its last log point."""
        return self._window_started - self._epoch_started

    def _machine(self, now: float) -> Values:
        if now - self._usage_read < SECONDS_BETWEEN_READINGS:
            return {}
        self._usage_read = now
        return self._usage.readings()

    def state_dict(self) -> dict[str, Any]:
        """The training time so far, and what the open window has counted."""
        return {"seconds": self.training_seconds, "window": [self._batches, self._updates]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a saved state."""
        self.training_seconds = state["seconds"]
        self._batches, self._updates = state["window"]
