"""The classes that a classifier got wrong most often, and what it took them for.

>>> import torch
>>> from andiron.outputs import ClassificationOutput
>>> answers = Answers()
>>> logits = torch.eye(3)[[0, 1, 1, 2]]
>>> answers.add(ClassificationOutput(torch.tensor(0.5), logits, torch.tensor([0, 1, 2, 2])))
>>> answers.worst(["cat", "dog", "owl"])
[{'class': 'owl', 'samples': 2, 'recall': 0.5, 'taken_for': {'dog': 1}}]
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from andiron.metrics.classification.class_averages import named
from andiron.metrics.classification.class_tables import ConfusionMatrix
from andiron.outputs import ClassificationOutput

MOST_CLASSES = 1000  # their squares are counted
MOST_SHOWN = 5  # classes
MOST_WRONG = 3  # classes that one was taken for


class Answers:
    """How often each class was taken for each; items that are of no classifier count nothing."""

    def __init__(self) -> None:
        self._count = ConfusionMatrix()
        self._counts: Tensor | None = None  # [true, predicted]

    def add(self, item: Any) -> None:
        """Counts one batch; nothing is read back from the device."""
        if isinstance(item, ClassificationOutput) and item.output.shape[-1] <= MOST_CLASSES:
            counts = self._count(item)[0].long()
            self._counts = counts if self._counts is None else self._counts + counts

    @classmethod
    def of_all(cls, several: "Sequence[Answers]") -> "Answers":
        """The counts of several processes together; those of one as they are."""
        if len(several) == 1:
            return several[0]
        total = cls()
        counts = [each._counts.cpu() for each in several if each._counts is not None]
        total._counts = sum(counts[1:], start=counts[0]) if counts else None
        return total

    def worst(self, class_names: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """The classes with errors, those of the lowest recall first, and their commonest errors."""
        if self._counts is None:
            return []
        counts = self._counts.tolist()
        names = named(class_names, len(counts))
        rows = [_row(names, true, row) for true, row in enumerate(counts) if sum(row) > row[true]]
        return sorted(rows, key=lambda row: row["recall"])[:MOST_SHOWN]


def _row(names: list[str], true: int, row: list[int]) -> dict[str, Any]:
    """What the samples of one class were taken for."""
    wrong = [predicted for predicted, count in enumerate(row) if count and predicted != true]
    commonest = sorted(wrong, key=lambda predicted: -row[predicted])[:MOST_WRONG]
    return {
        "class": names[true],
        "samples": sum(row),
        "recall": row[true] / sum(row),
        "taken_for": {names[predicted]: row[predicted] for predicted in commonest},
    }
