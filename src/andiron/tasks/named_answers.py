"""Answers in the outputs of a network, with the data's names of classes and values.

>>> import torch
>>> (fields,) = likeliest(torch.tensor([[0.0, 2.0]]), ["cat", "dog"])
>>> fields["label"], round(fields["probabilities"]["dog"], 2)
('dog', 0.88)
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from andiron import outputs

Facts = Mapping[str, Any]  # of the data
Fields = Mapping[str, Any]  # of a `Prediction`
Names = Sequence[str] | None


@runtime_checkable
class Answering(Protocol):
    """A task that says what its outputs mean; `Supervised` says what it can of any."""

    def answers(self, outputs: Tensor, facts: Facts) -> Iterable[Fields]:
        """The fields of the `Prediction` of each sample: label, probabilities, values, text, ..."""

    def target_text(self, target: Tensor, facts: Facts) -> str:
        """The target of one sample, as the `text` of a prediction."""


def none(logits: Tensor, class_names: Names) -> Iterator[Fields]:
    """The numbers of a row of outputs as text: what they mean is not known."""
    for row in logits:
        yield {"text": text_of(row, None)} if row.dim() < 2 else {}


def yes_or_no(logits: Tensor, class_names: Names) -> Iterator[Fields]:
    """The likelier of two classes, and the probability of each."""
    no, yes = outputs.named(class_names, 2)
    for logit, p in zip(logits.tolist(), logits.sigmoid().tolist(), strict=True):
        # by the logit, as in the metrics, also where the probability is rounded to 0.5
        label = None if math.isnan(p) else yes if logit > 0 else no
        yield {"label": label, "probabilities": {no: 1 - p, yes: p}, "text": label or ""}


def labels(logits: Tensor, class_names: Names) -> Iterator[Fields]:
    """The labels with a probability above 0.5, and the probability of each."""
    names = outputs.named(class_names, logits.shape[-1])
    for row, of_row in zip(logits.tolist(), logits.sigmoid().tolist(), strict=True):
        likely = tuple(name for name, logit in zip(names, row, strict=True) if logit > 0)
        probabilities = dict(zip(names, of_row, strict=True))
        yield {"labels": likely, "probabilities": probabilities, "text": ";".join(likely)}


def likeliest(logits: Tensor, class_names: Names) -> Iterator[Fields]:
    """The name with the largest logit of each row, and the probability of every name."""
    names = outputs.named(class_names, logits.shape[-1])
    # by logits, as in the metrics: different ones may have the same probability
    classes = outputs.likeliest(logits).tolist()
    for row, best in zip(logits.softmax(-1).tolist(), classes, strict=True):
        label = None if best < 0 else names[best]
        probabilities = dict(zip(names, row, strict=True))
        yield {"label": label, "probabilities": probabilities, "text": label or ""}


def text_of(target: Tensor, class_names: Names) -> str:
    """The first values of a target, or its class; empty for several classes."""
    if target.is_floating_point():
        values = (f"{value:.6g}" for value in target.reshape(-1)[:8].tolist())
        return ", ".join(values) + ", ..." * (target.numel() > 8)
    if target.dim():
        return ""
    names = class_names or ()
    return names[int(target)] if 0 <= int(target) < len(names) else str(target.item())
