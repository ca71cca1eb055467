"""Converts a tally's counts to plain values and tensors, and back; checks the values of a file.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.plain import readable

WHERE = "state.json: metric_log.tally"
FAILURES = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RuntimeError)


def plain(value: Any, tensors: dict[str, Tensor]) -> Any:
    """The value as JSON, with a name and device in place of each tensor; `tensors` gets those."""
    if isinstance(value, Tensor):
        name = str(len(tensors))
        tensors[name] = value.detach()
        return {"tensor": name, "device": value.device.type}
    if isinstance(value, tuple):
        return {"tuple": plain([*value], tensors)}
    return [plain(inner, tensors) for inner in value] if isinstance(value, list) else value


def restored(
    value: Any, tensors: Mapping[str, Tensor], device: torch.device | None = None
) -> Any:
    """The original value; a tensor from a GPU is moved to `device`, or to one of its own type."""
    if isinstance(value, list):
        return [restored(inner, tensors, device) for inner in value]
    if not isinstance(value, dict):
        return value
    if "tuple" in value:
        return tuple(restored(value["tuple"], tensors, device))
    tensor = tensors[value["tensor"]]
    return tensor.clone() if value["device"] == "cpu" else tensor.to(device or value["device"])


def check(
    metrics: Sequence[Any], window: Sequence[Any], epoch: Sequence[Any], slices: Sequence[Any]
) -> None:
    """Refuses restored parts other than tensors and numbers, or of other shapes than the others.

    Raises: ValueError naming the metric and the problem.
    """
    if sum(map(len, slices)) not in (0, len(window)):
        raise ValueError("slices does not fit its window")
    for metric, of_epoch, *entries in zip(metrics, epoch, *window, strict=True):
        entries += [] if of_epoch is None else [of_epoch]
        forms = {str(_form(metric, parts)) for parts in entries}
        if len(forms) > 1:
            raise ValueError(f"{metric.name} has parts of {' and '.join(sorted(forms))}")


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


def _form(metric: Any, parts: Any) -> list[Any]:
    """The property that all parts of a metric share: the shapes of sums; else their number."""
    for part in parts:
        for leaf in part if isinstance(part, list) else [part]:
            is_number = isinstance(leaf, int | float)
            if not is_number and not (isinstance(leaf, Tensor) and not leaf.is_complex()):
                shown = readable.shortened(repr(leaf))
                raise ValueError(f"{metric.name} has {shown}, not a real number or tensor")
    has_sums = hasattr(metric, "value") and not getattr(metric, "gathers", False)
    return [list(part.shape) for part in parts] if has_sums else [len(parts)]
