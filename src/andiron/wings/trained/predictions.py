"""Predictions from a network's outputs, with the data's names of classes and values.

>>> import torch
>>> task = Classifier(torch.nn.Identity())
>>> (one,) = of_batch(task, torch.tensor([[0.0, 2.0]]), {"class_names": ["cat", "dog"]}, ["a.png"])
>>> one.label, round(one.probabilities["dog"], 2)
('dog', 0.88)
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor, nn

from andiron import errors, inference, outputs
from andiron.learner import update
from andiron.learner.precision import Precision
from andiron.metrics.classification import class_averages
from andiron.tasks import (
    BinaryClassifier,
    BinaryCrossEntropy,
    Classifier,
    Forward,
    LanguageModel,
    MultiLabelClassifier,
    Regressor,
    criterion,
)

Facts = Mapping[str, Any]
OF_LABELS = (BinaryCrossEntropy, nn.BCEWithLogitsLoss)  # losses of several yes-or-no answers


@dataclass(frozen=True, eq=False)
class Prediction:
    """The prediction for one input; fields that do not apply to the task are empty.

    `name` identifies the input. `output` is the network's: logits, or values in the targets' unit.
    `label` is the likeliest class, or the likeliest next token of a text; `labels` are all labels
    with a probability above 0.5. `probabilities` are by class or label, `values` by target. `kept`
    has the columns of a table's row that `predict(..., keep=[...])` names.
    """

    name: str
    output: Tensor
    label: str | None = None
    labels: tuple[str, ...] = ()
    probabilities: Mapping[str, float] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_finite(self) -> bool:
        """Whether the probabilities or values, or else the output, are finite."""
        shown = [*self.probabilities.values(), *self.values.values()]
        return all(map(math.isfinite, shown)) if shown else bool(self.output.isfinite().all())

    @property
    def probability(self) -> float | None:
        """The probability of `label`."""
        return None if self.label is None else self.probabilities[self.label]

    @property
    def text(self) -> str:
        """The label, the labels, or the values."""
        values = ", ".join(f"{value:.6g}" for value in self.values.values())
        return self.label or ";".join(self.labels) or values


def outputs_of(task: nn.Module, batch: Any, precision: Precision) -> Any:
    """The task's outputs for a batch, in evaluation mode.

    Raises: MismatchError if it cannot be computed.
    """
    try:
        with inference.valid(task), precision.autocast():
            return task(getattr(batch, "inputs", batch))
    except Exception as error:
        update.explain_step(error, task, batch)
        raise


def of_batch(
    task: nn.Module, outputs: Any, facts: Facts, names: Sequence[str]
) -> Iterator[Prediction]:
    """The prediction of each sample of a batch, from the outputs of `task`.

    Raises: MismatchError for outputs other than a tensor with a row for each sample.
    """
    if not isinstance(outputs, Tensor) or len(outputs) != len(names):
        raise errors.MismatchError(
            f"{type(task).__name__} gives {type(outputs).__name__} for {len(names)} inputs, and "
            "no tensor with a row for each; call run.model yourself"
        )
    # out of inference mode: a normal tensor; at least float32, as NumPy has no bfloat16
    rows = criterion.at_least_float32(outputs.cpu()).clone()
    readers = [read for kind, read in READERS.items() if isinstance(task, kind)]
    if isinstance(task, Forward) and isinstance(getattr(task.loss, "loss", None), OF_LABELS):
        readers = [partial(_forward_fields, of_each=_label_fields)]
    read: Fields = readers[0](rows, facts) if readers else iter([{}] * len(names))
    for name, output, fields in zip(names, rows, read, strict=True):
        yield Prediction(name, output, **fields)


Fields = Iterator[dict[str, Any]]  # the fields of each prediction


def _class_fields(logits: Tensor, facts: Facts) -> Fields:
    return _likeliest(logits, named(facts.get("class_names"), logits.shape[-1]))


def _forward_fields(
    outputs: Tensor, facts: Facts, of_each: Callable[[Tensor, Facts], Fields] = _class_fields
) -> Fields:
    """`of_each` if there is an output for each class of the data, a binary answer if one for two.
    """
    if outputs.dim() == 1 and facts.get("num_classes") == 2:
        return _binary_fields(outputs, facts)
    is_class = outputs.shape[1:] == (facts.get("num_classes"),)
    return of_each(outputs, facts) if is_class else iter([{}] * len(outputs))


def _binary_fields(logits: Tensor, facts: Facts) -> Fields:
    no, yes = named(facts.get("class_names"), 2)
    for logit, p in zip(logits.tolist(), logits.sigmoid().tolist(), strict=True):
        # by the logit, as in the metrics, also where the probability is rounded to 0.5
        label = None if math.isnan(p) else yes if logit > 0 else no
        yield {"label": label, "probabilities": {no: 1 - p, yes: p}}


def _label_fields(logits: Tensor, facts: Facts) -> Fields:
    names = named(facts.get("class_names"), logits.shape[-1])
    for row, of_row in zip(logits.tolist(), logits.sigmoid().tolist(), strict=True):
        labels = tuple(name for name, logit in zip(names, row, strict=True) if logit > 0)
        yield {"labels": labels, "probabilities": dict(zip(names, of_row, strict=True))}


def _value_fields(outputs: Tensor, facts: Facts) -> Fields:
    names = named(facts.get("target_columns"), outputs.shape[1])
    for row in outputs:
        is_plain = row.dim() == 1  # not an image
        yield {"values": dict(zip(names, row.tolist(), strict=True))} if is_plain else {}


def _token_fields(logits: Tensor, facts: Facts) -> Fields:
    """The token after the last one."""
    vocabulary, size = facts.get("vocabulary"), logits.shape[-1]
    names = named(vocabulary or [*map(_byte, range(size))], size)
    return _likeliest(logits[:, -1], names)


def _likeliest(logits: Tensor, names: Sequence[str]) -> Fields:
    """The name with the largest logit of each row, and the probability of every name."""
    # by logits, as in the metrics: different ones may have the same probability
    labels = outputs.likeliest(logits).tolist()
    for row, best in zip(logits.softmax(-1).tolist(), labels, strict=True):
        label = None if best < 0 else names[best]
        yield {"label": label, "probabilities": dict(zip(names, row, strict=True))}


def named(names: Sequence[str] | None, number: int) -> list[str]:
    """The names of `number` classes or values, by default their indices.

    Raises: MismatchError for another number of names.
    """
    try:
        return class_averages.named(names, number)
    except ValueError as error:
        raise errors.MismatchError(f"{error}: the model does not fit these data") from error


def _byte(token: int) -> str:
    return chr(token) if token < 128 else f"\\x{token:02x}"


READERS: dict[type[nn.Module], Callable[[Tensor, Facts], Fields]] = {
    Classifier: _class_fields,
    Forward: _forward_fields,
    BinaryClassifier: _binary_fields,
    MultiLabelClassifier: _label_fields,
    Regressor: _value_fields,
    LanguageModel: _token_fields,
}
