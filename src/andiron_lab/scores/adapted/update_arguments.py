"""The arguments of a torchmetrics metric's update for one batch, from the task's item."""

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from andiron import errors, outputs
from andiron.outputs import IGNORED, RegressionOutput, SequenceOutput, sum_dtype
from andiron.plain.plain_values import Named
from andiron.plain.token_texts import BYTES, Vocabulary, decoded

MetricUpdate = tuple[tuple[Any, ...], Named]  # arguments by place and by name
Parameters = dict[str, inspect.Parameter]  # of `update` without a default, by name


@runtime_checkable
class GivesUpdates(Protocol):
    """An item that chooses the arguments of a metric of torchmetrics itself."""

    def metric_updates(self, metric: object, names: Sequence[str]) -> list[MetricUpdate]:
        """The updates of the metric, whose required arguments have these names."""


def innermost(owners: Sequence[Any]) -> tuple[Any, Parameters]:
    """The metric to update and the required arguments of its `update`; a wrapper passes on any."""
    for owner in owners:
        parameters = inspect.signature(owner.update).parameters.values()
        if not any(p.kind is p.VAR_POSITIONAL for p in parameters):
            return owner, {
                p.name: p
                for p in parameters
                if p.default is p.empty and p.kind is not p.VAR_KEYWORD
            }
    return owners[0], {}


def updates_by(inputs: Callable[[Any], object], item: object) -> list[MetricUpdate]:
    """The updates that a user's function returns for an item.

    It returns the arguments as a tuple or, by name, as a dict; or a list of these for several
    updates; anything else is the only argument.
    """
    returned = inputs(item)
    return [_update(value) for value in (returned if isinstance(returned, list) else [returned])]


def tensors(updates: Sequence[MetricUpdate]) -> tuple[Tensor, ...]:
    """The arguments of the only update, which are concatenated over the batches.

    Raises: TypeError for several updates, or anything else than positional tensors.
    """
    (arguments, named), *others = updates
    if others or named or not all(isinstance(argument, Tensor) for argument in arguments):
        raise TypeError("is computed from all batches at once, which takes tensors by place alone")
    return arguments


def described(update: MetricUpdate) -> str:
    """The kinds and shapes of the arguments, for messages."""
    arguments, named = update
    shown = (
        f"{str(argument.dtype).removeprefix('torch.')} {[*argument.shape]}"
        if isinstance(argument, Tensor)
        else type(argument).__name__
        for argument in (*arguments, *named.values())
    )
    return " and ".join(shown)


def updates_of(
    metric: object, takes: Parameters, item: object, vocabulary: Vocabulary
) -> list[MetricUpdate]:
    """The updates for an item: its own, predictions and targets, or texts.

    Parameters beyond the first two are attributes of the item with their name.
    Raises: MismatchError if the item lacks an argument.
    """
    names = [*takes]
    if names == ["value"] and not isinstance(item, RegressionOutput):  # an aggregator
        raise _misfit(metric, item, "takes a value, which is not in")
    if isinstance(item, GivesUpdates):
        return item.metric_updates(metric, names)
    if _takes_text(takes) and isinstance(getattr(item, "output", None), Tensor):
        if not isinstance(item, SequenceOutput):
            raise _misfit(metric, item, "takes text, which is not in")
        predictions, targets = _texts(item, vocabulary)
        several = _takes_references([*takes.values()][1].annotation)
        return [((predictions, [[target] for target in targets] if several else targets), {})]
    first, others = _of_outputs(metric, item)[: len(names) or None], names[2:]
    missing = [name for name in others if not hasattr(item, name)]
    if missing:
        raise _misfit(metric, item, f"also takes {', '.join(missing)}, which are not in")
    return [(first, {name: getattr(item, name) for name in others})]


def _update(arguments: object) -> MetricUpdate:
    if isinstance(arguments, Mapping):
        return (), arguments
    return (arguments if isinstance(arguments, tuple) else (arguments,)), {}


def _texts(
    item: SequenceOutput, vocabulary: Vocabulary
) -> tuple[list[str], list[str]]:
    """The texts of the likeliest tokens and of the targets, without places of IGNORED ones.

    The tokens are read from the device.
    Raises: MismatchError if the text of the tokens is unknown.
    """
    classes = item.output.shape[-1]
    if vocabulary is None and classes != BYTES:
        raise errors.MismatchError(
            f"the text of {classes} different tokens is unknown; give vocabulary: the text of each "
            "token"
        )
    targets = item.targets.cpu()
    predicted, wanted = (
        [decoded(row[known].tolist(), vocabulary)
         for row, known in zip(tokens, targets != IGNORED, strict=True)]
        for tokens in (item.output.argmax(dim=-1).cpu(), targets)
    )  # fmt: skip
    return predicted, wanted


def _of_outputs(metric: object, item: object) -> tuple[Any, Any]:
    """Outputs and targets in the metric's format."""
    if not (hasattr(item, "output") and hasattr(item, "targets")):
        raise _misfit(metric, item, "takes predictions and targets, which are not in")
    output, targets = _widened(metric, item, item.output), item.targets
    if isinstance(item, outputs.ClassificationOutput):
        if _is_of(metric, "torchmetrics.clustering"):
            return output.argmax(dim=-1), targets
        return output.softmax(dim=-1), targets
    if isinstance(
        item, outputs.BinaryClassificationOutput | outputs.MultiLabelClassificationOutput
    ):
        return output.sigmoid(), targets
    if isinstance(item, RegressionOutput):
        targets = targets.to(output.dtype)
        if output.shape[1:] == (1,):
            output, targets = output[:, 0], targets[:, 0]
        if item.has_ignored:
            if targets.ndim > 1:
                raise _misfit(metric, item, "cannot leave out ignored ones of several targets in")
            known = targets != IGNORED
            return output[known], targets[known]
    if isinstance(item, SequenceOutput) and not _is_of(metric, "torchmetrics.text"):
        return output.flatten(0, 1).softmax(dim=-1), targets.flatten()
    if _is_of(metric, "torchmetrics.retrieval"):  # without a score above 0, all is irrelevant to it
        return output.where(output > 0, 1e-30 / (1 - output)), targets
    return output, targets


def _widened(metric: object, item: object, output: Any) -> Any:
    """The outputs in at least float32, as metrics of Andiron take them, or in float64."""
    if not isinstance(output, Tensor) or not output.is_floating_point():
        return output
    kinds = "torchmetrics.classification", "torchmetrics.regression"
    if isinstance(item, SequenceOutput) or not _is_of(metric, *kinds):
        return outputs.at_least_float32(output)
    # float32 makes ties of probabilities near 1, and loses digits in sums of squares
    return output.to(sum_dtype(output.device))


def _takes_text(takes: Parameters) -> bool:
    """Whether predictions and targets are annotated as strings."""
    kinds = [take.annotation for take in takes.values()]
    return len(kinds) == 2 and all(kind is str or "[str]" in str(kind) for kind in kinds)


def _takes_references(kind: object) -> bool:
    """Whether the targets are several references for each prediction, and nothing else."""
    return [typing.get_origin(inner) for inner in typing.get_args(kind)] == [Sequence]


def _is_of(metric: object, *packages: str) -> bool:
    return any(kind.__module__.startswith(packages) for kind in type(metric).__mro__)


def _misfit(metric: object, item: object, lack: str) -> errors.MismatchError:
    return errors.MismatchError(f"{type(metric).__name__} {lack} the {type(item).__name__}")
