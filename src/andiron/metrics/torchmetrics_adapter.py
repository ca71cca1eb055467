"""Adapter for the metrics of the package torchmetrics, whose states become the parts."""

import inspect
from typing import Any

import torch
from torch import Tensor

from andiron import outputs
from andiron.protocols import Parts, Result
from andiron.ranges import Node

ANSWERS = (outputs.BinaryClassificationOutput, outputs.MultiLabelClassificationOutput)


class Torchmetrics:
    """The torchmetrics `metric` of (item.output, item.targets); its states are the parts.

    It gets the logits of a classifier as probabilities: it would convert them itself, except for a
    batch whose logits all happen to lie in [0, 1]. Its own argument `ignore_index: -100` leaves out
    IGNORED targets. Most metrics validate their inputs, which reads from the device at each batch;
    `validate_args: false` avoids that. The metric is only the adapter's working memory.
    Raises: ValueError if its states are neither all summed nor all concatenated, or its direction
    is unknown.
    """

    def __init__(
        self, metric: Node, *, name: str | None = None, higher_is_better: bool | None = None
    ):
        self.metric = metric
        self.name = name or type(metric).__name__
        self.gathers = _gathers(metric)
        better = metric.higher_is_better if higher_is_better is None else higher_is_better
        if better is None:
            problem = f"{type(metric).__name__} does not say; give true or false"
            raise ValueError(f"higher_is_better: {problem}")
        self.higher_is_better: bool = better

    def __call__(self, item: Any) -> Parts:
        self._move(item.output.device)
        self.metric.reset()
        self.metric.update(*_inputs(item))
        states = self.metric.metric_state.values()
        if not self.gathers:
            return tuple(states)
        # what the batch added to each list, with a dimension for the samples
        lists = ([each if each.ndim else each[None] for each in state] for state in states)
        return tuple(map(torch.cat, lists))

    def value(self, *parts: Tensor) -> Result:
        """The metric's value: a number, or several by name or place; None for NaN.

        Raises: TypeError for any other value, such as a curve.
        """
        self._move(torch.device("cpu"))
        self.metric.reset()
        for (state, default), part in zip(self.metric.metric_state.items(), parts, strict=True):
            if self.gathers:
                setattr(self.metric, state, [part])
            else:  # counts as integers again; other sums stay float64
                dtype = part.dtype if default.is_floating_point() else default.dtype
                setattr(self.metric, state, part.to(dtype))
        # unwrapped: without its cache and its exchange between ranks
        result = inspect.unwrap(self.metric.compute)()
        self.metric.reset()
        return _values(self.name, result)

    def _move(self, device: torch.device) -> None:
        if self.metric.device != device:
            self.metric.to(device)


def _gathers(metric: Any) -> bool:
    """Whether the states are concatenated; False if they are summed."""
    # here: it takes seconds to import, and is optional
    from torchmetrics.utilities import dim_zero_cat, dim_zero_sum

    name, reductions = type(metric).__name__, getattr(metric, "_reductions", {})
    if not reductions:
        remedy = "give each metric of torchmetrics by itself"
        raise ValueError(f"metric={name}: has no states of its own to add up; {remedy}")
    kinds = {*reductions.values()}
    if kinds in ({dim_zero_sum}, {dim_zero_cat}):
        return dim_zero_cat in kinds
    found = ", ".join(
        f"{state} by {getattr(how, '__name__', how)}" for state, how in reductions.items()
    )
    raise ValueError(
        f"metric={name}: merges its states in a way that sums cannot follow ({found}); "
        "all should be dim_zero_sum, or all dim_zero_cat: use another setting of it (thresholds), "
        "or write a Statistic of your own"
    )


def _inputs(item: Any) -> tuple[Tensor, Tensor]:
    """Outputs and targets in the shapes that torchmetrics expects."""
    output, targets = item.output, item.targets
    if isinstance(item, outputs.ClassificationOutput):
        return output.softmax(dim=-1), targets
    if isinstance(item, ANSWERS):
        return output.sigmoid(), targets
    if isinstance(item, outputs.RegressionOutput) and output.shape[1] == 1:
        return output[:, 0], targets[:, 0]
    return output, targets


def _values(name: str, result: Any) -> Result:
    if isinstance(result, Tensor) and result.ndim == 1 and len(result) != 1:
        result = {str(number): each for number, each in enumerate(result)}
    several = result if isinstance(result, dict) else {name: result}
    if all(isinstance(each, Tensor) and each.numel() == 1 for each in several.values()):
        numbers = {key: float(each) for key, each in several.items() if not each.isnan()}
        return numbers if several is result else numbers.get(name)
    is_tensor = isinstance(result, Tensor)
    kind = f"a tensor {list(result.shape)}" if is_tensor else f"a {type(result).__name__}"
    problem = f"torchmetrics computes {kind}; only numbers can be logged, not a curve"
    raise TypeError(f"{name}: {problem}")
