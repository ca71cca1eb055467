"""A picture of the ROC curve of each class."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torch.nn import functional

from andiron.metrics.classification.ranking import Curve, counts_by_score
from andiron.plain.markdown import table
from andiron.protocols import Result
from andiron_lab.masks.worst_masks import COLOURS
from andiron_lab.scores.precision_recall_curve import columns_by_class


@dataclass(kw_only=True)
class RocCurve(Curve):
    """A picture of the ROC curve of each class against the rest, with a legend of colours.

    The true positive rate over the false positive rate, at every distinct score; classes without
    positives or negatives have no curve. Measured on validation data only.
    Source: Fawcett 2006, "An introduction to ROC analysis".
    """

    name: str = "roc_curve"
    validation_only = True

    def value(self, logits: Tensor, targets: Tensor) -> Result:
        by_class = columns_by_class(logits, targets, self.class_names)
        lines = {name: _roc(*column) for name, column in by_class.items()}
        if not lines:
            return None
        legend = table(["class", "colour"], [*zip(lines, itertools.cycle(COLOURS), strict=False)])
        return {"curves": line_chart([*lines.values()]), "colours": legend}


def _roc(scores: Tensor, truths: Tensor) -> tuple[Tensor, Tensor]:
    """False and true positive rates from the highest score down, from 0 to 1."""
    _, predicted, right = counts_by_score(scores, truths)
    rates = torch.stack([predicted - right, right])
    false, true = functional.pad(rates / rates[:, -1:], (1, 0))
    return false, true


def line_chart(
    lines: Sequence[tuple[Float[Tensor, " points"], Float[Tensor, " points"]]], size: int = 256
) -> UInt8[Tensor, "3 height width"]:
    """Rising lines (x, y) in the unit square, on white, in the order of COLOURS."""
    chart = torch.full((3, size, size), 255, dtype=torch.uint8)
    pixel = torch.arange(size)
    for line, colour in zip(lines, itertools.cycle(COLOURS.values()), strict=False):
        x, y = (value.double().numpy() * (size - 1) for value in line)
        rows = torch.from_numpy(numpy.interp(pixel, x, y)).round().long()
        columns = torch.from_numpy(numpy.interp(pixel, y, x)).round().long()
        places = size - 1 - torch.cat([rows, pixel]), torch.cat([pixel, columns])
        chart[:, *places] = torch.tensor(colour, dtype=torch.uint8)[:, None]
    return chart
