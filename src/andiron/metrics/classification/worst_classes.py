"""The classes that a classifier got wrong most often, and its wrong answers for them.

>>> import torch
>>> from andiron.outputs import ClassificationOutput
>>> answers = Answers()
>>> logits = torch.eye(3)[[0, 1, 1, 2]]
>>> answers.add(ClassificationOutput(torch.tensor(0.5), logits, torch.tensor([0, 1, 2, 2])))
>>> answers.worst(["cat", "dog", "owl"])
[{'class': 'owl', 'samples': 2, 'recall': 0.5, 'taken_for': {'dog': 1}}]
"""


from torch import Tensor

from andiron.distributed import World
from andiron.metrics.classification.class_tables import ConfusionMatrix
from andiron.outputs import ClassificationOutput, ClassNames, named
from andiron.plain.plain_values import Plain

MOST_CLASSES = 1000  # their squares are counted
MOST_SHOWN = 5  # classes
MOST_WRONG = 3  # wrong answers shown for one class


class Answers:
    """The confusion counts of a classifier; other items are ignored."""

    def __init__(self) -> None:
        self._count = ConfusionMatrix()
        self.forget()

    def forget(self) -> None:
        """Starts over."""
        self._counts: Tensor | None = None  # [true, predicted]

    def add(self, item: object) -> None:
        """Counts one batch; nothing is read back from the device."""
        if isinstance(item, ClassificationOutput) and item.output.shape[-1] <= MOST_CLASSES:
            counts = self._count(item)[0].long()
            self._counts = counts if self._counts is None else self._counts + counts

    def gather(self, world: World) -> None:
        """Adds up the counts of all processes."""
        own = None if self._counts is None else self._counts.cpu()
        counts = [value for value in world.gathered(own) if value is not None]
        self._counts = sum(counts[1:], start=counts[0]) if counts else None

    def worst(self, class_names: ClassNames = None) -> list[Plain]:
        """The classes with errors, lowest recall first, and their most common errors."""
        if self._counts is None:
            return []
        counts = self._counts.tolist()
        names = named(class_names, len(counts))
        rows = [_row(names, true, row) for true, row in enumerate(counts) if sum(row) > row[true]]
        return sorted(rows, key=lambda row: row["recall"])[:MOST_SHOWN]


def _row(names: list[str], true: int, row: list[int]) -> Plain:
    """The answers for the samples of one class."""
    wrong = [predicted for predicted, count in enumerate(row) if count and predicted != true]
    commonest = sorted(wrong, key=lambda predicted: -row[predicted])[:MOST_WRONG]
    return {
        "class": names[true],
        "samples": sum(row),
        "recall": row[true] / sum(row),
        "taken_for": {names[predicted]: row[predicted] for predicted in commonest},
    }
