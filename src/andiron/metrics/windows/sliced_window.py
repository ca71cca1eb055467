"""Merges the metric parts of several processes as one process would merge them."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from andiron.distributed import Sliced, World

Merge = Callable[[Any, Sequence[Any]], Any]  # the parts of one metric from several batches


class _Carried(NamedTuple):
    """A tensor on its way to another process, which puts it on its own device of this type."""

    tensor: Tensor
    device: str


def merged(
    metrics: Sequence[object], window: Sequence[Sliced], world: World, merge: Merge
) -> list[Any] | None:
    """The parts of each metric over the batches of a window; None where nothing was counted.

    Sums are added in a balanced tree over the slices; metrics that gather get the batches in order.
    """
    gathers = [getattr(metric, "gathers", False) for metric in metrics]
    sums = {
        number: [None if gathering else merge(metric, parts)
                 for metric, gathering, parts in zip(metrics, gathers, columns, strict=True)]
        for number, columns in _by_slice(window).items()
    }  # fmt: skip
    by_slice = {number: entry for own in world.gathered(sums) for number, entry in own.items()}
    if not by_slice:
        return None
    most = max(world.num_slices, max(by_slice) + 1)  # saved with another number of slices
    total: list[Any] = _tree([by_slice.get(number) for number in range(most)])
    rows = [
        Sliced({number: [parts for parts, gathering in zip(entry, gathers) if gathering]
                for number, entry in batch.items()})
        for batch in window
    ]  # fmt: skip
    batches = of_all(rows, world) if any(gathers) else []
    columns = iter(zip(*(entry for batch in batches for entry in batch.values()), strict=True))
    return [
        merge(metric, next(columns)) if gathering else parts
        for metric, gathering, parts in zip(metrics, gathers, total, strict=True)
    ]


def of_all(window: Sequence[Sliced], world: World) -> list[Sliced]:
    """The window of all processes: for each batch the parts of its slices, in order."""
    by_rank = world.gathered(_moved([*window]))
    return [
        Sliced(sorted((n, _moved(parts)) for batch in batches for n, parts in batch.items()))
        for batches in zip(*by_rank, strict=True)
    ]


def own(parts: Sequence[object], places: Sequence[Sequence[int]], world: World) -> list[Sliced]:
    """This process's part of a window that was saved with the slices of each batch.

    Other slices than now are each counted by one process.
    """
    remaining = iter(parts)
    whole = [{number: next(remaining) for number in numbers} for numbers in places]
    return [
        Sliced({n: entry for n, entry in batch.items() if n % world.num_slices in world.own_slices})
        for batch in whole
    ]


def _by_slice(window: Sequence[Sliced]) -> dict[int, list[Any]]:
    """For each slice a column for each metric: its parts from the batches of the window."""
    numbers = sorted({number for batch in window for number in batch})
    return {
        number: [*zip(*(batch[number] for batch in window if number in batch), strict=True)]
        for number in numbers
    }


def _tree(slices: Sequence[list[Any] | None]) -> Any:
    """The sum of all slices: the sum of the first half plus that of the second."""
    if len(slices) == 1:
        return slices[0]
    middle = 1 << (len(slices) - 1).bit_length() - 1
    first, second = _tree(slices[:middle]), _tree(slices[middle:])
    return added(first, second) if first and second else first or second


def added(totals: Sequence[Any], parts: Sequence[Any]) -> list[Any]:
    """The parts of each metric added to its total, which is None before the first."""
    return [
        part if total is None else type(part)(map(operator.add, total, part))
        for total, part in zip(totals, parts, strict=True)
    ]


def _moved(value: object) -> Any:
    """The value with its tensors on the CPU, on their way; those on their way on their device."""
    if isinstance(value, Tensor):
        return _Carried(value.detach().cpu(), value.device.type)
    if isinstance(value, _Carried):
        return value.tensor.to(torch.device(value.device))
    if isinstance(value, Mapping):
        return {key: _moved(inner) for key, inner in value.items()}
    return type(value)(map(_moved, value)) if isinstance(value, list | tuple) else value
