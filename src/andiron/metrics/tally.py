"""What several metrics come to over a window of batches, and over the epoch the windows make up."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from andiron.metrics import nested_tensors
from andiron.protocols import Metric, Statistic, Values


class Tally:
    """The values of `metrics` over a window and over an epoch, weighted by what was counted.

    Adding a batch reads nothing back from the device. Closing a window does, once for each metric's parts; from there on
    the epoch's sums are float64, so a long epoch loses no precision.
    """

    def __init__(self, metrics: Sequence[Metric | Statistic]):
        self.metrics = list(metrics)
        self._kinds = [_kind(metric) for metric in self.metrics]
        self._window: list[list[tuple[Any, ...]]] = []  # one list of parts a batch
        self._epoch: list[Any] = [None] * len(self.metrics)
        self.texts: dict[
            str, str
        ] = {}  # of the last epoch or window closed: Markdown pages by name

    def add(self, item: Any) -> None:
        """Counts one batch."""
        self._window.append([metric(item) for metric in self.metrics])

    def close_window(self) -> Values:
        """The numbers since the last window was closed; empty if no batch was added."""
        return self._measured(self._move_window())

    def close_epoch(self) -> Values:
        """The numbers since the last epoch was closed, an open window included."""
        self._move_window()
        parts, self._epoch = self._epoch, [None] * len(self.metrics)
        return self._measured(parts)

    def forget(self) -> None:
        """Drops what was counted since the last epoch was closed."""
        self._window, self._epoch = [], [None] * len(self.metrics)

    def state_dict(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What the open window and the open epoch hold, batch by batch: merging early would round differently."""
        plain, tensors = nested_tensors.packed({"window": self._window, "epoch": self._epoch})
        return {"metrics": [metric.name for metric in self.metrics], **plain}, tensors

    def load_state_dict(
        self, plain: Mapping[str, Any], tensors: Mapping[str, Tensor], device: torch.device
    ) -> None:
        """Goes on from what `state_dict` gave; what lay on a GPU comes to `device`.

        Raises: ValueError if it is of other metrics.
        """
        names = [metric.name for metric in self.metrics]
        if plain["metrics"] != names:
            raise ValueError(
                f"saved while {', '.join(plain['metrics'])} were measured, not {', '.join(names)}; measure the same"
            )
        self._window, self._epoch = (
            nested_tensors.unpacked(plain[part], tensors, device) for part in ("window", "epoch")
        )

    def _move_window(self) -> list[Any]:
        """The parts of the open window, which the epoch's then hold too; None for each metric if no batch was added."""
        batches, self._window = self._window, []
        if not batches:
            return [None] * len(self.metrics)
        by_metric = zip(self._kinds, zip(*batches, strict=True), strict=True)
        parts = [kind.merged(of_metric) for kind, of_metric in by_metric]
        before = zip(self._kinds, self._epoch, parts, strict=True)
        self._epoch = [new if old is None else kind.joined(old, new) for kind, old, new in before]
        return parts

    def _measured(self, parts: list[Any]) -> Values:
        """A number by its metric's name, several as name/part; pages are put aside in `texts`."""
        values: Values = {}
        self.texts = {}
        for metric, kind, of_metric in zip(self.metrics, self._kinds, parts, strict=True):
            value = None if of_metric is None else kind.value(metric, of_metric)
            if isinstance(value, str):
                self.texts[metric.name] = value
            elif isinstance(value, dict):
                values |= {f"{metric.name}/{name}": inner for name, inner in value.items()}
            elif value is not None:
                values[metric.name] = value
        return values


def _kind(metric: Metric | Statistic) -> Any:
    if not isinstance(metric, Statistic):
        return _Means
    return _Gathered if metric.gathers else _Sums


class _Means:
    """Parts (total, count) as two floats."""

    @staticmethod
    def merged(batches: Sequence[tuple[Any, ...]]) -> tuple[float, float]:
        totals, counts = zip(*batches, strict=True)
        return _sum(totals), _sum(counts)

    @staticmethod
    def joined(old: tuple[float, float], new: tuple[float, float]) -> tuple[float, float]:
        return old[0] + new[0], old[1] + new[1]

    @staticmethod
    def value(metric: Metric, parts: tuple[float, float]) -> float | None:
        total, count = parts
        return total / count if count else None


class _Sums:
    """Parts that are added up, in float64 on the CPU; MPS has no float64, so its batches are added in their own type."""

    @staticmethod
    def merged(batches: Sequence[tuple[Tensor, ...]]) -> list[Tensor]:
        return [
            _added([part.detach() for part in parts]).cpu().double()
            for parts in zip(*batches, strict=True)
        ]

    @staticmethod
    def joined(old: list[Tensor], new: list[Tensor]) -> list[Tensor]:
        return [a + b for a, b in zip(old, new, strict=True)]

    @staticmethod
    def value(metric: Statistic, parts: list[Tensor]) -> Any:
        return metric.value(*parts)


class _Gathered:
    """Parts of every sample, in lists of what the windows brought."""

    @staticmethod
    def merged(batches: Sequence[tuple[Tensor, ...]]) -> list[list[Tensor]]:
        return [
            [torch.cat([part.detach() for part in parts]).cpu()]
            for parts in zip(*batches, strict=True)
        ]

    @staticmethod
    def joined(old: list[list[Tensor]], new: list[list[Tensor]]) -> list[list[Tensor]]:
        return [a + b for a, b in zip(old, new, strict=True)]

    @staticmethod
    def value(metric: Statistic, parts: list[list[Tensor]]) -> Any:
        return metric.value(*map(torch.cat, parts))


def _added(parts: Sequence[Tensor]) -> Tensor:
    stacked = torch.stack([*parts])
    return (
        stacked.sum(0)
        if stacked.device.type == "mps" or not stacked.is_floating_point()
        else stacked.double().sum(0)
    )


def _sum(values: Sequence[Tensor | int]) -> float:
    """The sum as a Python number: one addition on the device for all batches, and one read."""
    if isinstance(values[0], Tensor):
        return float(torch.cat([value.reshape(-1) for value in values]).sum())  # type: ignore[union-attr]
    return float(sum(values))
