"""Adapter for torchmetrics: the states of a metric become the parts."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.protocols import Parts, Result
from andiron.ranges import Node
from andiron_lab.scores.adapted import computed_values, packed_states, update_arguments
from andiron_lab.scores.adapted.update_arguments import MetricUpdate

REFUSALS = (IndexError, KeyError, RuntimeError, TypeError, ValueError)


class Torchmetrics:
    """Any `metric` of torchmetrics; its states are the parts.

    It gets (item.output, item.targets): probabilities of a classifier, texts for a text metric; or
    the item's `metric_updates`. `inputs`, a function of the item, gives other arguments: a
    tuple, a dict by name, or a list of them for several updates. Curves and matrices are pictures,
    on validation data only, as is every metric with `validation_only`. Its own argument
    `ignore_index: -100` leaves out IGNORED targets. Most metrics validate their inputs, which reads
    from the device at each batch; `validate_args: false` avoids that. The metric is only the
    adapter's working memory.
    Raises: ValueError if it has state beyond torchmetrics states, or an unknown direction.
    """

    def __init__(
        self,
        metric: Node,
        *,
        name: str | None = None,
        higher_is_better: bool | None = None,
        inputs: Callable[[Any], Any] | None = None,
        validation_only: bool = False,
        vocabulary: Sequence[str] | None = None,
    ):
        self.metric = metric
        self.name = name or type(metric).__name__
        self._owners = _owners(metric)
        self._states = packed_states.states_of(self._owners)
        self._innermost = update_arguments.innermost(self._owners)
        self._inputs, self._vocabulary = inputs, vocabulary
        self.gathers = not packed_states.are_sums(self._states)
        self._gathers_arguments = packed_states.lacks_reduction(self._states)
        self.validation_only = validation_only or computed_values.is_picture(metric)
        self.higher_is_better = _direction(metric, self._innermost[0], higher_is_better)

    def __call__(self, item: Any) -> Parts:
        updates = self._updates(item)
        self._prepare(item.loss.device)
        with self._refusals_named(updates):
            if self._gathers_arguments:
                return update_arguments.tensors(updates)
            for arguments, named in updates:
                self.metric.update(*arguments, **named)
            if self.gathers:
                return tuple(packed_states.parts_of(self._states))
        return tuple(getattr(state.owner, state.name) for state in self._states)

    def value(self, *parts: Tensor) -> Result:
        """The metric's value: a number, several by name or place, or a picture; None for NaN.

        Raises: TypeError for any other value, such as one for each pixel.
        """
        self._prepare(torch.device("cpu"))
        with self._refusals_named():
            if self._gathers_arguments:
                self.metric.update(*parts)
            elif self.gathers:
                packed_states.set_gathered(self._states, parts)
            else:
                packed_states.set_sums(self._states, parts)
            # unwrapped: without its cache and its exchange between ranks
            result = inspect.unwrap(self.metric.compute)()
        self._prepare(torch.device("cpu"))
        return computed_values.value_of(self.name, self.metric, result)

    def _updates(self, item: object) -> list[MetricUpdate]:
        if self._inputs is not None:
            return update_arguments.updates_by(self._inputs, item)
        try:
            return update_arguments.updates_of(*self._innermost, item, self._vocabulary)
        except errors.MismatchError as error:
            raise errors.MismatchError(f"{self.name}: {error}; {self._remedy}") from error

    def _prepare(self, device: torch.device) -> None:
        """Empties the metric, on this device."""
        from torchmetrics import Metric  # here: it takes seconds to import, and is optional

        for owner in self._owners:
            Metric.reset(owner)  # the class's own reset may keep some state: FID its real features
            # FID stores the dtype of its features only to round its value
            owner.orig_dtype = torch.float64
        if self.metric.device != device:
            self.metric.to(device)
        packed_states.widen(self._states)

    @property
    def _remedy(self) -> str:
        remedy = "give inputs: a function of the item that returns the arguments of its update"
        return f"{remedy}, or leave it out, on the command line by ~metrics.{self.name}"

    @contextmanager
    def _refusals_named(self, updates: Sequence[MetricUpdate] = ()) -> Iterator[None]:
        """Turns torchmetrics' refusals into a MismatchError; errors of a user's class pass.

        Raises: MismatchError.
        """
        try:
            yield
        except torch.OutOfMemoryError:
            raise
        except REFUSALS as error:
            kind = type(self.metric)
            if not kind.__module__.startswith("torchmetrics."):
                raise
            problem = f"{self.name}: {kind.__name__}: {' '.join(str(error).split())}"
            if updates:
                problem += f"; it got {update_arguments.described(updates[0])}; {self._remedy}"
            raise errors.MismatchError(problem) from error


def _owners(metric: object) -> list[Any]:
    """The metric, and the metrics inside a wrapper.

    Raises: ValueError if it is not a metric, or has state beyond torchmetrics states.
    """
    from torchmetrics import Metric
    from torchmetrics.wrappers import MinMaxMetric, Running

    name = type(metric).__name__
    if not isinstance(metric, Metric):
        raise ValueError(
            f"metric={name}: has no states of its own to add up; give each metric of torchmetrics "
            "by itself"
        )
    owners = [module for module in metric.modules() if isinstance(module, Metric)]
    for owner in owners:
        if isinstance(owner, MinMaxMetric | Running):
            raise ValueError(
                f"metric={name}: {type(owner).__name__} depends on the order of batches; give the "
                "metric inside it: the best value of a run is in its summary"
            )
    metric.eval()  # a user's feature network treats every batch alike
    return owners


def _direction(metric: Any, innermost: Any, requested: bool | None) -> bool | None:
    """The direction given, or the metric's own, if any; of a wrapper that of the metric inside it.
    """
    from torchmetrics.wrappers.abstract import WrapperMetric

    own = innermost if isinstance(metric, WrapperMetric) else metric
    return own.higher_is_better if requested is None else requested
