"""Sums and tensors that metrics give for batches: merged, in and between processes, and saved.

Processes merge them as one process would. In a checkpoint they are plain values and tensors,
checked when they are read.
"""

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from andiron import errors
from andiron.distributed import Sliced, World
from andiron.outputs import sum_dtype
from andiron.plain import readable
from andiron.protocols import Decisions, Metric, Parts

TAKEN = "a number, a Markdown text, a picture (uint8 [channels, height, width]), Decisions, a dict"
WHERE = "state.json: metric_log.tally"
FAILURES = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RuntimeError)


def merged(metric: Metric, batches: Sequence[Parts]) -> Any:
    """The parts of several batches merged: two floats for a mean, sums, or lists of tensors."""
    try:
        if isinstance(batches[0], Tensor):
            raise TypeError("its rows would be taken for the tensors of a tuple")
        columns = zip(*batches, strict=True)
        if not hasattr(metric, "value"):
            return tuple(map(_total, columns))
        if getattr(metric, "gathers", False):
            # one tensor a window, in a list: the windows of an epoch are concatenated once
            return [[torch.cat(parts).detach().cpu()] for parts in columns]
        return [_sum_of(parts) for parts in columns]
    except Exception as error:
        what = f"metrics.{metric.name}: gives {readable.shortened(repr(batches[0]))} for a batch"
        errors.explain(error, what, "return (total, count), or tensors for a method value")
        raise


def _total(values: Sequence[Any]) -> float:
    """The sum as a Python number: one addition on the device for all batches, and one read."""
    if isinstance(values[0], Tensor):
        return float(torch.cat([value.reshape(-1) for value in values]).sum())
    return float(sum(values))


def _sum_of(parts: tuple[Tensor, ...]) -> Tensor:
    """The sum in float64 on the CPU; floats are added in the widest type of their device."""
    stacked = torch.stack(parts).detach()
    dtype = sum_dtype(stacked.device) if stacked.is_floating_point() else None
    return stacked.sum(0, dtype=dtype).cpu().double()


def value_of(metric: object, parts: Sequence[Any]) -> Any:
    """The value of merged parts; of a metric without `value` the mean."""
    if hasattr(metric, "value"):
        return metric.value(*(torch.cat(p) if isinstance(p, list) else p for p in parts))
    total, count = parts
    return total / count if count else None


def named(name: str, value: object) -> dict[str, Any]:
    """The value of the metric `name`; of a dict each entry, as name/entry.

    Raises: MismatchError for one that nothing could show.
    """
    if isinstance(value, Mapping):
        return {f"{name}/{part}": _plain(name, inner) for part, inner in value.items()}
    return {name: _plain(name, value)}


def _plain(name: str, value: Any) -> Any:
    """The value; a number of NumPy, or a tensor without dimensions, as Python's."""
    if getattr(value, "ndim", None) == 0:
        value = value.item()
    is_picture = isinstance(value, Tensor) and value.dtype == torch.uint8 and value.dim() == 3
    if is_picture or value is None or isinstance(value, int | float | str | Decisions):
        return value
    shown = readable.shortened(" ".join(repr(value).split()))
    raise errors.MismatchError(f"metrics.{name}: its value is {shown}; should be {TAKEN} or None")


class _Carried(NamedTuple):
    """A tensor on its way to another process, which puts it on its own device of this type."""

    tensor: Tensor
    device: str


def merged_slices(
    metrics: Sequence[Metric], window: Sequence[Sliced], world: World
) -> list[Any] | None:
    """The parts of each metric over the batches of a window; None where nothing was counted.

    Sums are added in a balanced tree over the slices; metrics that gather get the batches in order.
    """
    gathers = [getattr(metric, "gathers", False) for metric in metrics]
    sums = {
        number: [None if gathering else merged(metric, parts)
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
        merged(metric, next(columns)) if gathering else parts
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


def plain(value: object, tensors: dict[str, Tensor]) -> Any:
    """The value as JSON, with a name and device in place of each tensor; `tensors` gets those."""
    if isinstance(value, Tensor):
        name = str(len(tensors))
        tensors[name] = value.detach()
        return {"tensor": name, "device": value.device.type}
    if isinstance(value, tuple):
        return {"tuple": plain([*value], tensors)}
    return [plain(inner, tensors) for inner in value] if isinstance(value, list) else value


def restored(value: object, tensors: Mapping[str, Tensor], device: torch.device) -> Any:
    """The original value; a tensor that was not on the CPU is moved to `device`."""
    if isinstance(value, list):
        return [restored(inner, tensors, device) for inner in value]
    if not isinstance(value, dict):
        return value
    if "tuple" in value:
        return tuple(restored(value["tuple"], tensors, device))
    tensor = tensors[value["tensor"]]
    return tensor.clone() if value["device"] == "cpu" else tensor.to(device)


def check(
    metrics: Sequence[object], state: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """Raises: DataError for complex sums, wrong slices, or a batch without a part of each metric.
    """
    if sum(map(len, state.get("slices", []))) not in (0, len(state["window"])):
        raise errors.DataError(f"{WHERE}.slices does not fit its window")
    for batch in (*state["window"], state["epoch"]):
        if not isinstance(batch, list) or len(batch) != len(metrics):
            raise errors.DataError(f"{WHERE}: no list of the parts of {len(metrics)} metrics")
    for name, tensor in tensors.items():
        if tensor.is_complex():
            raise errors.DataError(f"metrics.safetensors: {name!r} is {tensor.dtype}, and no sum")


@contextmanager
def failures_explained() -> Iterator[None]:
    """A context that blames errors on the file: its parts do not fit the configured metrics.

    Raises: DataError.
    """
    try:
        yield
    except FAILURES as error:
        raise errors.DataError(
            f"{WHERE}: the sums in the checkpoint do not fit the configured metrics "
            f"({errors.one_line(error)}); resume from another checkpoint"
        ) from error
