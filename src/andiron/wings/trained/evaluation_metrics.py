"""Scores by class and losses by sample, in addition to the run's own metrics."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from andiron import errors, outputs
from andiron.metrics import PerClass
from andiron.metrics.classification import class_tables
from andiron.metrics.classification.class_tables import ClassScores
from andiron.outputs import IGNORED

CLASSIFIED = (
    outputs.ClassificationOutput,
    outputs.BinaryClassificationOutput,
    outputs.MultiLabelClassificationOutput,
)

ONE_CLASS = CLASSIFIED[:2]


class Details:
    """Scores of every class, for the items of classifiers, and losses of samples, if supervised.

    The loss is -log p(target) for one class or a binary target, its mean for several labels or
    tokens, and the mean of (output - target)^2 for values.
    """

    def __init__(self) -> None:
        self._counts: Tensor | None = None  # by class
        self._losses: list[Tensor] = []  # of each batch
        self._scores: list[Tensor] = []

    def add(self, item: object) -> None:
        """Counts one batch, and stores the loss and the score of each of its samples."""
        if isinstance(item, CLASSIFIED):
            counts = PerClass()(item)[0].long()
            self._counts = counts if self._counts is None else self._counts + counts
        self._losses.append(losses := losses_of(item).cpu())
        scores = -losses
        if isinstance(item, ONE_CLASS):
            is_binary = item.output.shape == item.targets.shape
            predicted = item.output > 0 if is_binary else outputs.likeliest(item.output)
            scores = (predicted == item.targets).float().cpu()
        self._scores.append(scores.where(losses > -torch.inf, torch.nan))

    def sample_scores(self) -> list[float]:
        """1 for right and 0 for wrong if a sample has one class, otherwise minus its loss.

        NaN where the loss is, or where all targets of a sample are ignored.
        """
        return torch.cat(self._scores).tolist()

    def scores(self, class_names: Sequence[str] | None) -> list[ClassScores]:
        """Precision, recall, F1 and support of every class; empty if nothing was counted."""
        if self._counts is None:
            return []
        return class_tables.scores(self._counts.cpu().double(), class_names)

    def worst(self, count: int) -> list[tuple[int, float]]:
        """(index, loss) of at most `count` samples, the highest loss first."""
        losses = torch.cat(self._losses).nan_to_num(-torch.inf, torch.inf, -torch.inf)
        order = losses.argsort(descending=True, stable=True)[:count].tolist()
        return [(index, float(losses[index])) for index in order if losses[index] > -torch.inf]


def losses_of(item: object) -> Tensor:
    """[batch]; -inf for samples whose targets are all ignored; [0] for items without a loss."""
    if not isinstance(item, outputs.SupervisedOutput):
        return torch.zeros(0)
    output, targets = item.output.float(), item.targets
    is_class = not targets.is_floating_point()
    if is_class and output.shape[:-1] == targets.shape:
        output = output.movedim(-1, 1)
        losses = functional.cross_entropy(output, targets, reduction="none", ignore_index=IGNORED)
    elif is_class and output.shape == targets.shape:
        labels = targets.clamp(min=0).float()
        losses = functional.binary_cross_entropy_with_logits(output, labels, reduction="none")
    elif output.shape == targets.shape:
        losses = (output - targets).square()
    else:
        raise errors.MismatchError("outputs and targets have different shapes")
    if not is_class and not item.has_ignored:  # any number is a value
        return losses.flatten(1).mean(1)
    counted = (targets != IGNORED).view(len(targets), -1)
    losses = losses.view(len(targets), -1).where(counted, 0).sum(1) / counted.sum(1)
    return losses.where(counted.any(1), -torch.inf)
