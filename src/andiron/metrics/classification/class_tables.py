"""Pages about every class: which is taken for which, and the scores of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from andiron.metrics.classification import class_averages, confusion_counts, decision_scores
from andiron.metrics.classification.classifier_rows import (
    BINARY,
    LABELS,
    check_threshold,
    refused,
    rows,
)
from andiron.ranges import Proportion


@dataclass(kw_only=True)
class ConfusionMatrix:
    """How often each class (a row) was taken for each (a column), as a Markdown table.

    A batch takes classes^2 numbers until its window is closed.
    """

    threshold: Proportion = 0.5
    class_names: Sequence[str] | None = None
    name: str = "confusion_matrix"
    higher_is_better = True
    gathers = False

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def __call__(self, item: Any) -> tuple[Tensor]:
        """[true, predicted], of a binary item 2 by 2."""
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
        return _table(["true \\ predicted", *names], filled)


@dataclass(kw_only=True)
class PerClass:
    """Precision, recall, F1 and support (how often it is the target) of every class or label, as a Markdown table.

    A score with nothing to divide by is 0, as in `Precision`; a class neither predicted nor true has a dash for all three.
    A binary item has its two classes.
    """

    threshold: Proportion = 0.5
    class_names: Sequence[str] | None = None
    name: str = "per_class"
    higher_is_better = True
    gathers = False

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def __call__(self, item: Any) -> tuple[Tensor]:
        return (confusion_counts.counted(item, self.threshold),)

    def value(self, *parts: Tensor) -> str:
        of = confusion_counts.unpacked(parts[0]).both_sides()
        ratios = [
            (of.true_positives, of.predicted),
            (of.true_positives, of.support),
            decision_scores.f_beta(of, 1),
        ]
        values = torch.stack([confusion_counts.divided(*ratio) for ratio in ratios]).T.tolist()
        numbers = zip(values, of.present.tolist(), of.support.long().tolist(), strict=True)
        shown = [
            [*(f"{value:.4f}" if there else "-" for value in of_class), str(n)]
            for of_class, there, n in numbers
        ]
        names = class_averages.named(self.class_names, len(shown))
        return _table(
            ["class", "precision", "recall", "F1", "support"],
            [[name, *cells] for name, cells in zip(names, shown, strict=True)],
        )


def _table(header: list[str], filled: list[list[str]]) -> str:
    """A Markdown table with its first column to the left and numbers to the right; a bar in a name is no border."""
    ruler = ["---", *["---:"] * (len(header) - 1)]
    lines = [header, ruler, *filled]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )
