"""Totals and counts of several metrics over a window of batches, and over the epoch the windows make up."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from andiron.protocols import Metric, Values


class Tally:
    """The means of `metrics` over a window and over an epoch, weighted by what was counted.

    Adding a batch reads nothing back from the device. Closing a window does, once for all metrics; from there on the
    epoch's sums are Python floats, so a long epoch loses no precision.
    """

    def __init__(self, metrics: Sequence[Metric]):
        self.metrics = list(metrics)
        self._window: list[tuple[Tensor, Tensor | int]] = []
        self._epoch = [(0.0, 0.0) for _ in self.metrics]

    def add(self, item: Any) -> None:
        """Counts one batch."""
        with torch.no_grad():  # a task that forgot to detach its item must not keep every graph of the window alive
            measured = [metric(item) for metric in self.metrics]
            if self._window:
                self._window = [(a + c, b + d) for (a, b), (c, d) in zip(self._window, measured, strict=True)]
            else:
                self._window = measured

    def close_window(self) -> Values:
        """The means since the last window was closed; empty if no batch was added."""
        sums = [(float(total), float(count)) for total, count in self._window]
        self._window = []
        if sums:
            self._epoch = [(a + c, b + d) for (a, b), (c, d) in zip(self._epoch, sums, strict=True)]
        return self._means(sums)

    def close_epoch(self) -> Values:
        """The means since the last epoch was closed, an open window included."""
        self.close_window()
        sums, self._epoch = self._epoch, [(0.0, 0.0) for _ in self.metrics]
        return self._means(sums)

    def _means(self, sums: list[tuple[float, float]]) -> Values:
        named = zip(self.metrics, sums, strict=False)
        return {metric.name: total / count for metric, (total, count) in named if count}
