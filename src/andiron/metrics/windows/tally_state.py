"""The state of a tally in a checkpoint: plain values and tensors, checked when they are read."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from andiron import errors

WHERE = "state.json: metric_log.tally"
FAILURES = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RuntimeError)


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
