"""Pictures of the samples that a network gets most wrong."""

from dataclasses import dataclass

import torch
from torch import Tensor

from andiron import errors
from andiron.metrics.classification.classifier_rows import CLASSES, rows
from andiron.metrics.classification.pictures import pixels
from andiron.outputs import IGNORED, ClassNames, named
from andiron.plain.markdown import table
from andiron.protocols import Parts, Result
from andiron.ranges import Count
from andiron_lab.batch_pictures import only_images, tiled


@dataclass(kw_only=True)
class WorstErrors:
    """The `count` images with the highest loss -log p(target), worst first, and a table of them.

    The table has true class, predicted class and loss, in the order of the picture. Images are
    scaled by their own minimum and maximum and shrunk to at most 64 pixels: every batch holds
    `count` of them until its window is closed. Measured on validation data only.
    """

    count: Count = 16
    columns: Count = 4
    class_names: ClassNames = None
    name: str = "worst_errors"
    higher_is_better = False
    gathers = True
    needs_batch = True
    validation_only = True

    def __call__(self, item: object, batch: object) -> Parts:
        """Losses, images, true classes and predicted classes of the worst samples of one batch.

        The images are the only ones in the batch.
        Raises: MismatchError if there are none, or several, or they have not a class each.
        """
        measured, images = rows(item, self.name, CLASSES), only_images(self.name, batch)
        if len(images) != len(measured.targets):
            raise errors.MismatchError(
                f"{self.name}: {len(images)} images have {len(measured.targets)} targets; should "
                "be a class each; leave the metric out"
            )
        log_p = measured.logits.float().log_softmax(-1)
        losses = -log_p.gather(-1, measured.indices()[:, None])[:, 0]
        losses = losses.masked_fill(measured.targets == IGNORED, -torch.inf)
        worst = losses.topk(min(self.count, len(losses))).indices
        shown = pixels(images[worst].float(), largest=64)
        classes = torch.tensor([log_p.shape[-1]])
        return losses[worst], shown, measured.targets[worst], log_p[worst].argmax(-1), classes

    def check_batch(self, batch: object) -> None:
        """Raises: MismatchError as a call, for a batch as it is stored."""
        only_images(self.name, batch)

    def value(self, *parts: Tensor) -> Result:
        losses, images, true, predicted, classes = parts
        order = losses.argsort(descending=True, stable=True)[: self.count]
        order = order[losses[order] != -torch.inf]
        if not len(order):
            return None
        names = named(self.class_names, int(classes[0]))
        lines = [
            [str(place), names[true[n]], names[predicted[n]], f"{losses[n]:.4f}"]
            for place, n in enumerate(order, start=1)
        ]
        picture = tiled(images[order], min(self.columns, len(order)))
        return {"images": picture, "table": table(["place", "true", "predicted", "loss"], lines)}
