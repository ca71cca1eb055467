"""What a network says of an input, in the words of the data: a class, labels, values, a token.

>>> import torch
>>> task = Classifier(torch.nn.Identity())
>>> (one,) = of_batch(task, torch.tensor([[0.0, 2.0]]), {"class_names": ["cat", "dog"]}, ["a.png"])
>>> one.label, round(one.probabilities["dog"], 2)
('dog', 0.88)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from andiron import errors, inference
from andiron.learner import update
from andiron.learner.precision import Precision
from andiron.metrics.classification import class_averages
from andiron.tasks import (
    BinaryClassifier,
    Classifier,
    LanguageModel,
    MultiLabelClassifier,
    Regressor,
)

THRESHOLD = 0.5  # of a probability that is a yes, as in the metrics
Facts = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Prediction:
    """What the network says of one input; what does not apply to its task is empty.

    `name` says which input. `output` is the network's own: logits, or values in the targets' unit.
    `label` is the likeliest class, or the likeliest next token of a text; `labels` are all that
    are likelier than not. `probabilities` are by class or label, `values` by target.
    """

    name: str
    output: Tensor
    label: str | None = None
    labels: tuple[str, ...] = ()
    probabilities: Mapping[str, float] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)

    @property
    def probability(self) -> float | None:
        """That of `label`."""
        return None if self.label is None else self.probabilities[self.label]


def outputs_of(task: nn.Module, batch: Any, precision: Precision) -> Any:
    """What the task gives for a batch, in evaluation mode.

    Raises: MismatchError if it cannot be computed.
    """
    try:
        with inference.valid(task), precision.autocast():
            return task(batch.inputs)
    except Exception as error:
        update.explain_step(error, task, batch)
        raise


def of_batch(
    task: nn.Module, outputs: Any, facts: Facts, names: Sequence[str]
) -> Iterator[Prediction]:
    """The prediction of each sample of a batch, from the outputs of `task`.

    Raises: MismatchError for outputs that are no tensor with a row for each sample.
    """
    if not isinstance(outputs, Tensor) or len(outputs) != len(names):
        raise errors.MismatchError(
            f"{type(task).__name__} gives {type(outputs).__name__} for {len(names)} inputs, and "
            "no tensor with a row for each; call run.model yourself"
        )
    read = next((read for kind, read in READERS.items() if isinstance(task, kind)), _bare)
    rows = outputs.cpu().clone()  # out of inference mode: a usual tensor
    for name, output, said in zip(names, rows, read(rows, facts), strict=True):
        yield Prediction(name, output, **said)


Said = Iterator[dict[str, Any]]  # the fields of each prediction


def _classes(logits: Tensor, facts: Facts) -> Said:
    return _likeliest(logits, named(facts.get("class_names"), logits.shape[-1]))


def _yes_or_no(logits: Tensor, facts: Facts) -> Said:
    no, yes = named(facts.get("class_names"), 2)
    for p in logits.float().sigmoid().tolist():
        yield {"label": yes if p >= THRESHOLD else no, "probabilities": {no: 1 - p, yes: p}}


def _labels(logits: Tensor, facts: Facts) -> Said:
    names = named(facts.get("class_names"), logits.shape[-1])
    for row in logits.float().sigmoid().tolist():
        found = dict(zip(names, row, strict=True))
        labels = tuple(name for name, p in found.items() if p >= THRESHOLD)
        yield {"labels": labels, "probabilities": found}


def _values(outputs: Tensor, facts: Facts) -> Said:
    names = named(facts.get("target_columns"), outputs.shape[1])
    for row in outputs:
        is_plain = row.dim() == 1  # not of an image
        yield {"values": dict(zip(names, row.tolist(), strict=True))} if is_plain else {}


def _next_tokens(logits: Tensor, facts: Facts) -> Said:
    """The token after the last one."""
    vocabulary, size = facts.get("vocabulary"), logits.shape[-1]
    names = named(vocabulary or [*map(_byte, range(size))], size)
    return _likeliest(logits[:, -1], names)


def _likeliest(logits: Tensor, names: Sequence[str]) -> Said:
    """The name with the largest logit of each row, and the probability of every name."""
    for row in logits.float().softmax(-1).tolist():
        label = names[max(range(len(row)), key=row.__getitem__)]
        yield {"label": label, "probabilities": dict(zip(names, row, strict=True))}


def named(names: Sequence[str] | None, number: int) -> list[str]:
    """Names for so many classes or values, by default their indices.

    Raises: MismatchError if there are not as many.
    """
    try:
        return class_averages.named(names, number)
    except ValueError as error:
        raise errors.MismatchError(f"{error}: the model does not fit these data") from error


def _byte(token: int) -> str:
    return chr(token) if token < 128 else f"\\x{token:02x}"


def _bare(outputs: Tensor, facts: Facts) -> Said:
    return iter([{}] * len(outputs))


READERS: dict[type[nn.Module], Callable[[Tensor, Facts], Said]] = {
    Classifier: _classes,
    BinaryClassifier: _yes_or_no,
    MultiLabelClassifier: _labels,
    Regressor: _values,
    LanguageModel: _next_tokens,
}
