"""Predictions from a network's outputs, with the data's names of classes and values.

>>> import torch
>>> from andiron.tasks import Classifier
>>> task = Classifier(torch.nn.Identity())
>>> (one,) = of_batch(task, torch.tensor([[0.0, 2.0]]), {"class_names": ["cat", "dog"]}, ["a.png"])
>>> one.label, round(one.probabilities["dog"], 2)
('dog', 0.88)
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Int
from torch import Tensor, nn

from andiron import errors, inference
from andiron.learner import update
from andiron.learner.precision import Precision
from andiron.outputs import at_least_float32
from andiron.tasks import named_answers
from andiron.tasks.named_answers import Answering, Facts


@dataclass(frozen=True, eq=False)
class Prediction:
    """The prediction for one input; fields that do not apply to the task are empty.

    `name` identifies the input. `output` is the network's: logits, or values in the targets' unit.
    `label` is the likeliest class, or the likeliest next token of a text; `labels` are all labels
    with a probability above 0.5. `probabilities` are by class or label, `values` by target. `mask`
    has the likeliest class of each pixel. `text` is the answer in words. `kept` has the columns of
    a table's row that `predict(..., keep=[...])` names.
    """

    name: str
    output: Tensor
    label: str | None = None
    labels: tuple[str, ...] = ()
    probabilities: Mapping[str, float] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    mask: Int[Tensor, "height width"] | None = None
    text: str = ""
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
    rows = at_least_float32(outputs.cpu()).clone()
    own: Any = task if isinstance(task, Answering) else None
    answered = own.answers(rows, facts) if own is not None else named_answers.none(rows, None)
    for name, output, fields in zip(names, rows, answered, strict=True):
        yield Prediction(name, output, **fields)


def target_text(task: nn.Module, facts: Facts, target: Tensor) -> str:
    """The target of one sample, as the `text` of a prediction."""
    if isinstance(task, Answering):
        return task.target_text(target, facts)
    return named_answers.text_of(target, facts.get("class_names"))
