"""Markdown pages about every class: the confusion matrix, and the scores of each class."""

from dataclasses import dataclass
from itertools import starmap

import torch
from torch import Tensor

from andiron.metrics.classification.classifier_rows import BINARY, CLASSES, rows
from andiron.metrics.classification.decision_scores import Counted, divided, f_beta, unpacked
from andiron.plain.markdown import table
from andiron.outputs import ClassNames, named
from andiron.protocols import Parts
from andiron.ranges import Proportion


@dataclass(kw_only=True)
class ConfusionMatrix:
    """Counts of each true class (row) predicted as each class (column), as a Markdown table.

    It holds classes^2 numbers for each batch of an open window.
    """

    threshold: Proportion = 0.5
    class_names: ClassNames = None
    name: str = "confusion_matrix"
    higher_is_better = True

    def __call__(self, item: object) -> Parts:
        """Counts [true, predicted]; [2, 2] for a binary item."""
        measured = rows(item, self.name, CLASSES, BINARY)
        classes = 2 if measured.kind == BINARY else measured.logits.shape[-1]
        decided = measured.only(measured.decided(self.threshold)).long()
        index = measured.indices() * classes + decided.clamp(0)
        ones = measured.only((decided >= 0).int())  # NaN predicts no class
        sums = torch.zeros(classes * classes, dtype=torch.int32, device=index.device)
        return (sums.scatter_add_(0, index, ones).view(classes, classes),)

    def value(self, sums: Tensor) -> str:
        names = named(self.class_names, len(sums))
        counts = zip(names, sums.long().tolist(), strict=True)
        return table(["true \\ predicted", *names], [[name, *row] for name, row in counts])


@dataclass(kw_only=True)
class PerClass(Counted):
    """Precision, recall, F1 and support (times as a target) of every class, as a Markdown table.

    A score whose denominator is 0 is 0, as in `Precision`; a class neither predicted nor true has
    dashes. A binary item has two classes.
    """

    class_names: ClassNames = None
    name: str = "per_class"

    def value(self, sums: Tensor) -> str:
        lines = [
            [
                row.name,
                *(f"{score:.4f}" if row.is_present else "-" for score in row.ratios),
                row.support,
            ]
            for row in scores(sums, self.class_names)
        ]
        return table(["class", "precision", "recall", "F1", "support"], lines)


@dataclass(frozen=True)
class ClassScores:
    """The scores of one class against the others; `support` is how often it was the target."""

    name: str
    precision: float
    recall: float
    f1: float
    support: int
    is_present: bool  # predicted or true at least once

    @property
    def ratios(self) -> tuple[float, float, float]:
        """Precision, recall and F1."""
        return self.precision, self.recall, self.f1


def scores(sums: Tensor, class_names: ClassNames) -> list[ClassScores]:
    """The scores of every class, from the merged counts of `PerClass`."""
    counts = unpacked(sums).both_sides()
    right, predicted, support = counts.true_positives, counts.predicted, counts.support
    ratios = [(right, predicted), (right, support), f_beta(counts, 1)]
    columns = [*starmap(divided, ratios), support.long(), counts.present]
    names = named(class_names, len(support))
    return [*map(ClassScores, names, *(column.tolist() for column in columns))]
