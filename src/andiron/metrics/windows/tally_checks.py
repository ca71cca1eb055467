"""Checks the counts of a tally that a file holds, and blames what fails later on the file."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from andiron import errors
from andiron.plain import readable

WHERE = "state.json: metric_log.tally"
NUMBERS = (int, float)
FAILURES = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RuntimeError)


def check(
    metrics: Sequence[Any], state: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """Refuses parts other than each metric's tensors and numbers, of the same shapes.

    Raises: DataError naming the place and the problem.
    """
    if sum(map(len, state.get("slices", []))) not in (0, len(state["window"])):
        raise errors.DataError(f"{WHERE}.slices does not fit its window")
    for part, batches in ("window", state["window"]), ("epoch", [state["epoch"]]):
        for number, batch in enumerate(batches):
            where = f"{WHERE}.{part}[{number}]" if part == "window" else f"{WHERE}.epoch"
            if not isinstance(batch, list) or len(batch) != len(metrics):
                raise errors.DataError(f"{where} is no list of the parts of {len(metrics)} metrics")
            for metric, parts in zip(metrics, batch, strict=True):
                if parts is not None or part == "window":
                    _check_parts(metric, parts, tensors, f"{where}, {metric.name}")
    for name, tensor in tensors.items():
        if tensor.is_complex():
            raise errors.DataError(f"metrics.safetensors: {name!r} is {tensor.dtype}, and no sum")
    for metric, shapes in zip(metrics, _shapes(state, tensors), strict=True):
        if hasattr(metric, "value") and not getattr(metric, "gathers", False) and len(shapes) > 1:
            listed = " and ".join(map(str, sorted(shapes)))
            raise errors.DataError(f"{WHERE}: the sums of {metric.name} have shapes {listed}")


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


def _check_parts(metric: Any, parts: Any, tensors: Mapping[str, Tensor], where: str) -> None:
    listed = _as_list(parts)
    if listed is None or (not hasattr(metric, "value") and len(listed) != 2):
        shown = readable.shortened(repr(parts))
        raise errors.DataError(f"{where}: {shown} are no parts of this metric")
    for each in listed:
        for leaf in each if isinstance(each, list) else [each]:
            is_number = type(leaf) in NUMBERS
            is_named = isinstance(leaf, dict) and leaf.keys() == {"tensor", "device"}
            is_text = is_named and all(isinstance(each, str) for each in leaf.values())
            if is_named and not (is_text and leaf["tensor"] in tensors):
                shown = readable.shortened(repr(leaf))
                raise errors.DataError(f"{where}: metrics.safetensors has no {shown}")
            if not is_number and not is_named:
                shown = readable.shortened(repr(leaf))
                raise errors.DataError(f"{where}: {shown} is neither a number nor a tensor")


def _as_list(parts: Any) -> list[Any] | None:
    """The parts of one metric, which are a list, or a tuple as a tally writes it."""
    if isinstance(parts, dict) and parts.keys() == {"tuple"}:
        parts = parts["tuple"]
    return parts if isinstance(parts, list) else None


def _shapes(state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> list[set[str]]:
    """By metric, the shapes of its parts in each batch and in the epoch, as text."""
    shapes_by_metric: list[set[str]] = [set() for _ in state["epoch"]]
    for batch in (*state["window"], state["epoch"]):
        for shapes, parts in zip(shapes_by_metric, batch, strict=True):
            leaves = _as_list(parts) or []
            named = [leaf for leaf in leaves if isinstance(leaf, dict)]
            if named:
                shapes.add(str([list(tensors[leaf["tensor"]].shape) for leaf in named]))
    return shapes_by_metric
