"""Any metric of the package torchmetrics whose state is sums, or samples side by side, as a statistic of Andiron's."""

import inspect
import math
from typing import Any

import torch
from torch import Tensor

from andiron.outputs import (
    BinaryClassificationOutput,
    ClassificationOutput,
    MultiLabelClassificationOutput,
    RegressionOutput,
)
from andiron.protocols import Values
from andiron.ranges import Node


class Torchmetrics:
    """The torchmetrics `metric` of (item.output, item.targets); its states after each batch alone are the parts.

    Logits of a classifier reach it as probabilities: it would turn them into these itself, but for a batch whose logits
    all happen to lie in [0, 1]. IGNORED targets are left out by its own argument: `ignore_index: -100`. Most metrics
    examine their inputs, which reads the device at each batch; `validate_args: false` spares that.
    The metric stays the adapter's own working memory: what is measured lies outside, in the parts.
    Raises: ValueError if its states are neither all added up nor all concatenated, or it does not know what is better.
    """

    def __init__(
        self, metric: Node, *, name: str | None = None, higher_is_better: bool | None = None
    ):
        self.metric = metric
        self.name = name or type(metric).__name__
        self.gathers = _gathers(metric)
        better = metric.higher_is_better if higher_is_better is None else higher_is_better
        if better is None:
            raise ValueError(
                f"higher_is_better: {type(metric).__name__} does not say; give true or false"
            )
        self.higher_is_better: bool = better

    def __call__(self, item: Any) -> tuple[Tensor, ...]:
        self._move(item.output.device)
        self.metric.reset()
        self.metric.update(*_inputs(item))
        states = tuple(self.metric.metric_state.values())
        return tuple(_rows(state) for state in states) if self.gathers else states

    def value(self, *parts: Tensor) -> float | Values | None:
        """What the metric computes: a number, or several by their own names or numbers; None for what is undefined (nan).

        Raises: TypeError if that is neither, such as a curve.
        """
        self._move(torch.device("cpu"))
        self.metric.reset()
        for (state, default), part in zip(self.metric.metric_state.items(), parts, strict=True):
            setattr(self.metric, state, [part] if self.gathers else _as_kept(default, part))
        result = inspect.unwrap(
            self.metric.compute
        )()  # within are no cache, and no exchange between ranks
        self.metric.reset()
        return _values(self.name, result)

    def _move(self, device: torch.device) -> None:
        if self.metric.device != device:
            self.metric.to(device)


def _gathers(metric: Any) -> bool:
    """Whether the states are kept side by side; False if they are added up."""
    from torchmetrics.utilities import (
        dim_zero_cat,
        dim_zero_sum,
    )  # here: it takes seconds to import, and may not be there

    name, reductions = type(metric).__name__, getattr(metric, "_reductions", {})
    if not reductions:
        raise ValueError(
            f"metric={name}: has no states of its own to add up; give each metric of torchmetrics by itself"
        )
    if set(reductions.values()) == {dim_zero_sum}:
        return False
    if set(reductions.values()) == {dim_zero_cat}:
        return True
    found = ", ".join(
        f"{state} by {getattr(how, '__name__', how)}" for state, how in reductions.items()
    )
    raise ValueError(
        f"metric={name}: merges its states in a way that sums cannot follow ({found}); all should be dim_zero_sum, "
        "or all dim_zero_cat: another setting of it may do (thresholds), or a Statistic of your own"
    )


def _inputs(item: Any) -> tuple[Tensor, Tensor]:
    """What the metric is given, in the shapes and meanings it knows."""
    output, targets = item.output, item.targets
    if isinstance(item, ClassificationOutput):
        return output.softmax(dim=-1), targets
    if isinstance(item, BinaryClassificationOutput | MultiLabelClassificationOutput):
        return output.sigmoid(), targets
    if (
        isinstance(item, RegressionOutput) and output.shape[1] == 1
    ):  # one output has no dimension there
        return output[:, 0], targets[:, 0]
    return output, targets


def _rows(state: list[Tensor]) -> Tensor:
    """What one batch added to a list, in one tensor with a dimension for the samples."""
    return torch.cat([each if each.ndim else each[None] for each in state])


def _as_kept(default: Tensor, part: Tensor) -> Tensor:
    """Counts as integers again; other sums stay float64."""
    return part if default.is_floating_point() else part.to(default.dtype)


def _values(name: str, result: Any) -> float | Values | None:
    if isinstance(result, Tensor):
        if result.numel() == 1:
            return None if math.isnan(number := float(result)) else number
        if result.ndim == 1:
            return _values(name, {str(number): each for number, each in enumerate(result)})
    if isinstance(result, dict) and all(
        isinstance(each, Tensor) and each.numel() == 1 for each in result.values()
    ):
        return {key: float(each) for key, each in result.items() if not math.isnan(float(each))}
    kind = (
        f"a tensor {list(result.shape)}"
        if isinstance(result, Tensor)
        else f"a {type(result).__name__}"
    )
    raise TypeError(
        f"{name}: torchmetrics computes {kind}, which is no number nor several; a curve cannot be logged so"
    )
