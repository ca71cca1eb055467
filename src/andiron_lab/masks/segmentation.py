"""Segmentation: the steps around a network that gives a class for each pixel, and its loss.

>>> import torch
>>> from andiron.data import Batch
>>> task = Segmentation(torch.nn.Conv2d(3, 4, 1))
>>> output = task.train_step(Batch(torch.zeros(2, 3, 5, 6), torch.zeros(2, 5, 6, dtype=torch.long)))
>>> [*output.item.output.shape], int(output.weight)
([2, 5, 6, 4], 60)
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from andiron.data.dataset import Batch
from andiron.outputs import IGNORED, Scalar, SupervisedOutput, Weight, likeliest, named
from andiron.ranges import Count, Fraction, Positive
from andiron.recording import keep_arguments
from andiron.tasks import CrossEntropy, criterion, target_checks as checks
from andiron.tasks.named_answers import Facts, Fields
from andiron.tasks.criterion import Criterion, Loss, Supervised


@dataclass(frozen=True)
class SegmentationOutput(SupervisedOutput):
    """A batch of masks, a class for each pixel: logits of each pixel, class indices as targets."""

    has_classes = True
    output: Float[Tensor, "batch height width classes"]
    targets: Int[Tensor, "batch height width"]

    @property
    def network_output(self) -> Float[Tensor, "batch classes height width"]:
        """The logits as the network gives them."""
        return self.output.movedim(-1, 1)


@keep_arguments
class PixelCrossEntropy:
    """`CrossEntropy` of all pixels, each a row of logits, which a GPU also sums deterministically.

    Raises: ValueError for a weight that is not positive.
    """

    def __init__(
        self,
        class_weights: Sequence[Positive] | None = None,
        label_smoothing: Fraction = 0.0,
        *,
        ignored_index: int | None = IGNORED,
    ):
        self.of_rows = CrossEntropy(class_weights, label_smoothing, ignored_index=ignored_index)
        self.ignored_index = ignored_index

    def total_weight(self, targets: Shaped[Tensor, "batch ..."]) -> Weight | None:
        """The sum of the targets' class weights; None if it equals their number."""
        return self.of_rows.total_weight(targets)

    def __call__(
        self,
        output: Float[Tensor, "batch classes height width"],
        targets: Int[Tensor, "batch height width"],
    ) -> Scalar:
        return self.of_rows(output.movedim(1, -1).flatten(0, -2), targets.flatten())


@keep_arguments
class Segmentation(Supervised):
    """A class for each pixel, with `network`, any module from images to logits.

    Targets are class indices [batch height width], logits [batch classes height width]. Training
    needs as many logits as `num_classes`, if given. The loss is not part of `state_dict()`.
    """

    wanted_fact = "num_classes"

    def __init__(
        self, network: nn.Module, loss: Loss | None = None, *, num_classes: Count | None = None
    ):
        super().__init__(network, Criterion(loss or PixelCrossEntropy()))
        self.num_classes = num_classes

    def predict(self, batch: Batch) -> SegmentationOutput:
        """The loss and the logits of one batch.

        Raises: DataError if the shapes do not fit or, on a CPU, a target is not one of the classes.
        """
        logits, targets = self(batch.inputs), criterion.as_int64(batch.targets)
        is_class = not targets.is_floating_point()
        if not is_class or logits.dim() != 4 or logits[:, 0].shape != targets.shape:
            remedy = (
                "should be [batch, classes, height, width] for classes [batch, height, width], "
                "which are integers"
            )
            raise checks.misfit(self, logits, targets, remedy)
        if self.training and self.num_classes not in (None, logits.shape[1]):
            raise checks.wrong_number(logits.shape[1], self.num_classes)
        loss, marked = self.loss(logits, targets), self.loss.marked(targets)
        weight = self.loss.weight(targets, marked)
        logits = logits.movedim(1, -1)
        return SegmentationOutput(loss, logits, marked, weight, self.loss.has_ignored)

    def answers(
        self, outputs: Float[Tensor, "batch classes height width"], facts: Facts
    ) -> Iterator[Fields]:
        """The class of each pixel, and the share of each class; NaN if a logit is not finite."""
        names = named(facts.get("class_names"), outputs.shape[1])
        for logits, mask in zip(outputs, mask_of(outputs), strict=True):
            values = shares(mask, names)
            if not bool(logits.isfinite().all()):
                values = dict.fromkeys(names, math.nan)
            yield {"mask": mask, "values": values, "text": _text(values)}

    def target_text(self, target: Int[Tensor, "height width"], facts: Facts) -> str:
        """The share of each class in a mask."""
        names = facts.get("class_names") or [*map(str, range(int(target.max()) + 1))]
        return _text(shares(target.cpu(), names))


def mask_of(
    logits: Float[Tensor, "batch classes height width"],
) -> Int[Tensor, "batch height width"]:
    """The likeliest class of each pixel; -1 where a logit is NaN."""
    return likeliest(logits.movedim(1, -1))


def shares(mask: Int[Tensor, "height width"], names: Sequence[str]) -> dict[str, float]:
    """The share of each class in the pixels that have one."""
    known = mask[mask >= 0].flatten()
    counts = known.bincount(minlength=len(names)) / max(1, len(known))
    return dict(zip(names, counts.tolist(), strict=True))


def _text(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in values.items())
