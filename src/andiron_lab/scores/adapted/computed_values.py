"""The result of a torchmetrics metric as the value of a metric: numbers, or a picture."""

import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy
import torch
from jaxtyping import UInt8
from torch import Tensor

from andiron.protocols import Result

MOST_NUMBERS = 1000  # more are not values to log, but a map or a value for each sample
DRAWS = {"curve", "cmap"}  # the parameters of `plot` if the metric is a curve or a matrix


def is_picture(metric: Any) -> bool:
    """Whether the metric computes a curve or a matrix, which torchmetrics draws."""
    draws = DRAWS & inspect.signature(metric.plot).parameters.keys()
    # a class with its own `compute` and an inherited `plot` computes something else
    return bool(draws) and _class_with(metric, "plot") is _class_with(metric, "compute")


def value_of(name: str, metric: Any, result: object) -> Result:
    """The value: a number, several by name or place, or a picture; None for NaN.

    Raises: TypeError for anything else, such as a map of each sample.
    """
    if is_picture(metric):
        if isinstance(result, Tensor) and result.ndim == 3:  # several labels, each with a matrix
            return {str(label): _picture(metric.plot, value) for label, value in enumerate(result)}
        return _picture(metric.plot, result)
    numbers = dict(_numbers(name, "", result))
    known = {place: number for place, number in numbers.items() if not math.isnan(number)}
    return known.get("") if "" in numbers else known


def _numbers(name: str, place: str, result: Any) -> Iterator[tuple[str, float]]:
    """Every number of the result by its place; the place of a single number is empty."""
    if isinstance(result, Tensor) and result.numel() == 1:
        result = result.item()
    if isinstance(result, int | float):
        yield place, float(result)
        return
    kind, size = type(result).__name__, math.inf
    if isinstance(result, Tensor):
        kind, size = f"a tensor {[*result.shape]}", result.numel()
    elif isinstance(result, Mapping | list | tuple):
        size = len(result)
    if size > MOST_NUMBERS:
        raise TypeError(
            f"{name}: torchmetrics computes {kind}; only numbers can be logged: change its "
            "arguments"
        )
    by_name = result if isinstance(result, Mapping) else dict(enumerate(result))
    for key, inner in by_name.items():
        yield from _numbers(name, f"{place}/{key}" if place else str(key), inner)


def _class_with(metric: object, method: str) -> type:
    return next(kind for kind in type(metric).__mro__ if method in vars(kind))


def _picture(plot: Callable[..., object], result: object) -> UInt8[Tensor, "3 height width"]:
    """Draws on a separate figure, without a window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # here: it takes half a second
    from matplotlib.figure import Figure

    canvas: Any = FigureCanvasAgg(Figure())  # untyped
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the drawing's own calls
        plot(result, ax=canvas.figure.subplots())
        canvas.draw()
    pixels = torch.from_numpy(numpy.array(canvas.buffer_rgba()))
    return pixels[:, :, :3].permute(2, 0, 1).contiguous()
