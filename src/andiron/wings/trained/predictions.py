"""Predictions from a network's outputs, with the data's names of classes and values.

>>> import torch
>>> task = Classifier(torch.nn.Identity())
>>> (one,) = of_batch(task, torch.tensor([[0.0, 2.0]]), {"class_names": ["cat", "dog"]}, ["a.png"])
>>> one.label, round(one.probabilities["dog"], 2)
('dog', 0.88)
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Int
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
Names = Sequence[str] | None
OF_LABELS = (BinaryCrossEntropy, nn.BCEWithLogitsLoss)  # losses of several yes-or-no answers


@dataclass(frozen=True, eq=False)
class Prediction:
    """The prediction for one input; fields that do not apply to the task are empty.

    `name` identifies the input. `output` is the network's: logits, or values in the targets' unit.
    `label` is the likeliest class, or the likeliest next token of a text; `labels` are all labels
    with a probability above 0.5. `probabilities` are by class or label, `values` by target. `mask`
    has the likeliest class of each pixel; `values` are then the share of each class. `kept` has the
    columns of a table's row that `predict(..., keep=[...])` names.
    """

    name: str
    output: Tensor
    label: str | None = None
    labels: tuple[str, ...] = ()
    probabilities: Mapping[str, float] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    mask: Int[Tensor, "height width"] | None = None
    kept: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_finite(self) -> bool:
        """Whether the probabilities or values, or else the output, are finite."""
        shown = [*self.probabilities.values(), *self.values.values()]
        if shown and self.mask is None:
            return all(map(math.isfinite, shown))
        return bool(self.output.isfinite().all())

    @property
    def probability(self) -> float | None:
        """The probability of `label`."""
        return None if self.label is None else self.probabilities[self.label]

    @property
    def text(self) -> str:
        """The label, the labels, the values, or the shares of a mask."""
        if self.mask is not None:
            return ", ".join(f"{name} {share:.0%}" for name, share in self.values.items())
        values = ", ".join(f"{value:.6g}" for value in self.values.values())
        return self.label or ";".join(self.labels) or values


def outputs_of(task: nn.Module, batch: object, precision: Precision) -> Any:
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
    task: nn.Module, outputs: object, facts: Facts, names: Sequence[str]
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
    for name, output, fields in zip(names, rows, _fields(task, rows, facts), strict=True):
        yield Prediction(name, output, **fields)


def _fields(task: nn.Module, outputs: Tensor, facts: Facts) -> Iterable[dict[str, Any]]:
    """The fields of each prediction; none if the outputs of a task of one's own mean nothing here.
    """
    size, number = outputs.shape[-1] if outputs.dim() > 1 else 1, facts.get("num_classes")
    classes = facts.get("class_names")
    if isinstance(task, Regressor):
        names = named(facts.get("target_columns"), outputs.shape[1])
        is_plain = outputs.dim() == 2  # not images
        return [{"values": dict(zip(names, row))} if is_plain else {} for row in outputs.tolist()]
    if isinstance(task, LanguageModel):  # the token after the last one
        return _likeliest(outputs[:, -1], facts.get("vocabulary") or [*map(_byte, range(size))])
    is_forward = isinstance(task, Forward)
    is_of_classes = is_forward and outputs.shape[1:] == (number,)
    if isinstance(task, BinaryClassifier) or is_forward and outputs.dim() == 1 and number == 2:
        return _answers(outputs, classes)
    own: Any = task.loss if is_of_classes else None
    if isinstance(task, MultiLabelClassifier) or own and isinstance(own.loss, OF_LABELS):
        return _labels(outputs, classes)
    if outputs.dim() == 4 and outputs.shape[1] == number:
        return _masks(outputs, classes)
    if isinstance(task, Classifier) or is_of_classes:
        return _likeliest(outputs, classes)
    return [{}] * len(outputs)


def _answers(logits: Tensor, class_names: Names) -> Iterator[dict[str, Any]]:
    no, yes = named(class_names, 2)
    for logit, p in zip(logits.tolist(), logits.sigmoid().tolist(), strict=True):
        # by the logit, as in the metrics, also where the probability is rounded to 0.5
        label = None if math.isnan(p) else yes if logit > 0 else no
        yield {"label": label, "probabilities": {no: 1 - p, yes: p}}


def _labels(logits: Tensor, class_names: Names) -> Iterator[dict[str, Any]]:
    names = named(class_names, logits.shape[-1])
    for row, of_row in zip(logits.tolist(), logits.sigmoid().tolist(), strict=True):
        labels = tuple(name for name, logit in zip(names, row, strict=True) if logit > 0)
        yield {"labels": labels, "probabilities": dict(zip(names, of_row, strict=True))}


def _likeliest(logits: Tensor, class_names: Names) -> Iterator[dict[str, Any]]:
    """The name with the largest logit of each row, and the probability of every name."""
    names = named(class_names, logits.shape[-1])
    # by logits, as in the metrics: different ones may have the same probability
    labels = outputs.likeliest(logits).tolist()
    for row, best in zip(logits.softmax(-1).tolist(), labels, strict=True):
        label = None if best < 0 else names[best]
        yield {"label": label, "probabilities": dict(zip(names, row, strict=True))}


def _masks(logits: Tensor, class_names: Names) -> Iterator[dict[str, Any]]:
    """The class of each pixel, and the share of each class."""
    names = named(class_names, logits.shape[1])
    for mask in outputs.likeliest(logits.movedim(1, -1)):
        yield {"mask": mask, "values": shares(mask, names)}


def shares(mask: Int[Tensor, "height width"], names: Sequence[str]) -> dict[str, float]:
    """The share of each class in the pixels that have one."""
    known = mask[mask >= 0].flatten()
    counts = known.bincount(minlength=len(names)) / max(1, len(known))
    return dict(zip(names, counts.tolist(), strict=True))


def named(names: Names, number: int) -> list[str]:
    """The names of `number` classes or values, by default their indices.

    Raises: MismatchError for another number of names.
    """
    try:
        return class_averages.named(names, number)
    except ValueError as error:
        raise errors.MismatchError(f"{error}: the model does not fit these data") from error


def _byte(token: int) -> str:
    return chr(token) if token < 128 else f"\\x{token:02x}"
