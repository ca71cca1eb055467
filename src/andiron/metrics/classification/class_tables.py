"""Markdown pages about every class: the confusion matrix, and the scores of each class."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from andiron.metrics.classification import class_averages, confusion_counts, decision_scores
from andiron.metrics.classification.classifier_rows import BINARY, LABELS, refused, rows
from andiron.ranges import Proportion


@dataclass(kw_only=True)
class ConfusionMatrix:
    """How often each true class (row) was predicted as each class (column), as a Markdown table.

    It holds classes^2 numbers for each batch of an open window.
    """

    threshold: Proportion = 0.5
    class_names: Sequence[str] | None = None
    name: str = "confusion_matrix"
    higher_is_better = True

    def __call__(self, item: Any) -> tuple[Tensor]:
        """Counts [true, predicted]; [2, 2] for a binary item."""
        measured = rows(item)
        if measured.kind == LABELS:
            raise refused(self.name, LABELS, "one of several classes, or yes or no")
        classes = 2 if measured.kind == BINARY else measured.logits.shape[-1]
        index = measured.indices() * classes + measured.only(measured.decided(self.threshold))
        ones = measured.only(torch.ones_like(index, dtype=torch.int32))
        sums = torch.zeros(classes * classes, dtype=torch.int32, device=index.device)
        return (sums.scatter_add_(0, index, ones).view(classes, classes),)

    def value(self, *parts: Tensor) -> str:
        names = class_averages.named(self.class_names, len(parts[0]))
        filled = [
            [name, *map(str, numbers)]
            for name, numbers in zip(names, parts[0].long().tolist(), strict=True)
        ]
        return table(["true \\ predicted", *names], filled)


@dataclass(kw_only=True)
class PerClass:
    """Precision, recall, F1 and support (times as a target) of every class, as a Markdown table.

    A score whose denominator is 0 is 0, as in `Precision`; a class neither predicted nor true has
    dashes. A binary item has two classes.
    """

    threshold: Proportion = 0.5
    class_names: Sequence[str] | None = None
    name: str = "per_class"
    higher_is_better = True

    def __call__(self, item: Any) -> tuple[Tensor]:
        return (confusion_counts.counted(item, self.threshold),)

    def value(self, *parts: Tensor) -> str:
        counts = confusion_counts.unpacked(parts[0]).both_sides()
        ratios = [
            (counts.true_positives, counts.predicted),
            (counts.true_positives, counts.support),
            decision_scores.f_beta(counts, 1),
        ]
        scores = torch.stack([confusion_counts.divided(*ratio) for ratio in ratios]).T.tolist()
        names = class_averages.named(self.class_names, len(scores))
        supports = counts.support.long().tolist()
        lines = [
            [name, *(f"{score:.4f}" if is_present else "-" for score in of_class), str(support)]
            for name, of_class, is_present, support in zip(
                names, scores, counts.present.tolist(), supports, strict=True
            )
        ]
        return table(["class", "precision", "recall", "F1", "support"], lines)


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table, first column left, others right; bars in cells are escaped."""
    ruler = ["---", *["---:"] * (len(header) - 1)]
    escaped = ([cell.replace("|", "\\|") for cell in line] for line in [header, ruler, *lines])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in escaped)
