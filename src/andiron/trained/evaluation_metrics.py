"""What an evaluation measures beside the run's own metrics: scores by class, losses by sample.

A metric gives numbers by name; `ByClass.read` and `SampleLosses.read` turn them back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from andiron import errors, outputs
from andiron.metrics import PerClass
from andiron.metrics.classification import class_tables
from andiron.metrics.classification.class_averages import named
from andiron.metrics.classification.class_tables import ClassScores
from andiron.outputs import IGNORED
from andiron.protocols import Parts, Values

CLASSIFIED = (
    outputs.ClassificationOutput,
    outputs.BinaryClassificationOutput,
    outputs.MultiLabelClassificationOutput,
)


class ByClass:
    """Precision, recall, F1 and support of every class, for the items of classifiers."""

    name = "andiron.by_class"
    higher_is_better = True
    parts = ("precision", "recall", "f1", "support", "is_present")

    def __call__(self, item: Any) -> Parts:
        """The counts of one batch; none of an item of another task."""
        return PerClass()(item) if isinstance(item, CLASSIFIED) else (torch.zeros(0),)

    def value(self, sums: Tensor) -> Values:
        """The scores by place of the class."""
        found = class_tables.scores(sums, None) if len(sums) else []
        return {
            f"{place}/{part}": float(getattr(each, part))
            for place, each in enumerate(found)
            for part in self.parts
        }

    def read(self, values: Values, class_names: Sequence[str] | None) -> list[ClassScores]:
        """The scores that are among the values of a pass, which loses them; empty without any."""
        found, size = _taken(values, self.name), len(self.parts)
        rows = [found[place : place + size] for place in range(0, len(found), size)]
        names = named(class_names if rows else None, len(rows))
        return [
            ClassScores(name, precision, recall, f1, int(support), bool(is_present))
            for name, (precision, recall, f1, support, is_present) in zip(names, rows, strict=True)
        ]


@dataclass
class SampleLosses:
    """The `count` samples with the highest loss, for the items of supervised tasks.

    The loss of a class is -log p, of yes or no -log p(answer), of several labels or tokens the mean
    of that, and of values the mean of (output - target)^2.
    """

    count: int
    name = "andiron.losses"
    higher_is_better = False
    gathers = True

    def __call__(self, item: Any) -> Parts:
        """The loss of each sample in one batch."""
        return (_losses(item),)

    def value(self, losses: Tensor) -> Values:
        """Index and loss of the worst, by place."""
        order = losses.argsort(descending=True, stable=True)[: self.count]
        return {
            f"{place}/{part}": value
            for place, index in enumerate(order.tolist())
            if losses[index] > -torch.inf
            for part, value in (("index", float(index)), ("loss", float(losses[index])))
        }

    def read(self, values: Values) -> list[tuple[int, float]]:
        """(index, loss) of the worst samples among the values of a pass, which loses them."""
        found = _taken(values, self.name)
        return [(int(index), loss) for index, loss in zip(found[::2], found[1::2], strict=True)]


def _taken(values: Values, name: str) -> list[float]:
    return [values.pop(key) for key in [*values] if key.startswith(f"{name}/")]


def _losses(item: Any) -> Tensor:
    """[batch]; -inf for a sample without a target that counts, none for items that have no loss."""
    if not isinstance(item, outputs.SupervisedOutput):
        return torch.zeros(0)
    output, targets = item.output.float(), item.targets
    if isinstance(item, outputs.ClassificationOutput | outputs.SequenceOutput):
        output = output.movedim(-1, 1)
        losses = functional.cross_entropy(output, targets, reduction="none", ignore_index=IGNORED)
    elif isinstance(item, CLASSIFIED):
        wanted = targets.clamp(min=0).float()
        losses = functional.binary_cross_entropy_with_logits(output, wanted, reduction="none")
    elif output.shape == targets.shape:
        return (output - targets).square().flatten(1).mean(1)
    else:
        raise errors.MismatchError("outputs and targets have different shapes")
    counted = (targets != IGNORED).view(len(targets), -1)
    losses = (losses.view(len(targets), -1) * counted).sum(1) / counted.sum(1)
    return losses.nan_to_num(nan=-torch.inf)  # 0 / 0: nothing counts
