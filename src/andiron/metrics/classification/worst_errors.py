"""Pictures of the samples, or of the masks, that a network gets most wrong."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from andiron import errors, outputs
from andiron.metrics.classification.class_averages import named
from andiron.metrics.classification.classifier_rows import CLASSES, rows
from andiron.metrics.classification.pictures import (
    COLOURS, images_in, inputs_in, overlaid, pixels, tiled,
)  # fmt: skip
from andiron.outputs import IGNORED
from andiron.plain.markdown import table
from andiron.protocols import Parts, Result
from andiron.ranges import Count


@dataclass(kw_only=True)
class WorstErrors:
    """The `count` images with the highest loss -log p(target), worst first, and a table of them.

    The table has true class, predicted class and loss, in the order of the picture. Images are
    scaled by their own minimum and maximum and shrunk to at most 64 pixels: every batch holds
    `count` of them until its window is closed. Measured on validation data only.
    """

    count: Count = 16
    columns: Count = 4
    class_names: Sequence[str] | None = None
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


@dataclass(kw_only=True)
class WorstMasks:
    """The `count` pictures with the largest share of wrong pixels, worst first.

    Each is shown as it is, with its mask over it, and with the predicted one: see `overlaid`.
    Pictures are shrunk to at most 128 pixels: every batch holds `count` of them until its window is
    closed. Measured on validation data only.
    """

    count: Count = 4
    class_names: Sequence[str] | None = None
    name: str = "worst_masks"
    higher_is_better = False
    gathers = True
    needs_batch = True
    validation_only = True

    def __call__(self, item: outputs.SegmentationOutput, batch: object) -> Parts:
        """Shares of wrong pixels, pictures, masks and predictions of the worst of one batch."""
        images, predicted = only_images(self.name, batch), outputs.likeliest(item.output)
        known = item.targets != IGNORED
        wrong = ((predicted != item.targets) & known).flatten(1).sum(1)
        shares = wrong / known.flatten(1).sum(1).clamp(1)
        worst = shares.topk(min(self.count, len(shares))).indices
        shown = pixels(images[worst].float(), largest=128)
        masks = torch.stack([item.targets[worst], predicted[worst]], 1).float()
        masks = functional.interpolate(masks, shown.shape[2:])  # nearest
        classes = torch.tensor([item.output.shape[-1]])
        return shares[worst], shown, masks.to(torch.int16), classes

    def value(self, *parts: Tensor) -> Result:
        shares, images, masks, classes = parts
        worst = shares.argsort(descending=True, stable=True)[: self.count]
        names = named(self.class_names, int(classes[0]))
        coloured = zip(names[1:], itertools.cycle(COLOURS), strict=False)
        legend = table(["class", "colour"], [[names[0], "none"], *map(list, coloured)])
        return {"pictures": tiled(overlaid(images[worst], masks[worst]), 1), "colours": legend}


def only_images(name: str, batch: object) -> Tensor:
    """The images of a batch, stored or as the network's inputs; `name` is the metric's.

    Raises: MismatchError if there are none, or several.
    """
    if len(images := images_in(batch)) == 1:
        return images[0]
    shapes = [[*input_.shape] for input_ in inputs_in(batch)]
    raise errors.MismatchError(
        f"{name}: inputs are {', '.join(map(str, shapes))}; should be images [batch, 1 or 3, "
        "height, width], and no others; leave the metric out"
    )
