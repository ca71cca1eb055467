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
        self._window: list[list[tuple[Tensor, Tensor | int]]] = []  # one list of (total, count) a batch
        self._epoch = [(0.0, 0.0) for _ in self.metrics]

    def add(self, item: Any) -> None:
        """Counts one batch."""
        self._window.append([metric(item) for metric in self.metrics])

    def close_window(self) -> Values:
        """The means since the last window was closed; empty if no batch was added."""
        by_metric = [zip(*batches, strict=True) for batches in zip(*self._window, strict=True)]
        sums = [(_sum(totals), _sum(counts)) for totals, counts in by_metric]
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


def _sum(values: Sequence[Tensor | int]) -> float:
    """The sum as a Python number: one addition on the device for all batches, and one read."""
    if isinstance(values[0], Tensor):
        return float(torch.cat([value.reshape(-1) for value in values]).sum())  # type: ignore[union-attr]
    return float(sum(values))
