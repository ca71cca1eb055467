"""Pictures of the masks that a network gets most wrong."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int16, UInt8
from torch import Tensor
from torch.nn import functional

from andiron import outputs
from andiron.metrics.classification.pictures import pixels
from andiron.outputs import IGNORED, named
from andiron.plain.markdown import table
from andiron.protocols import Parts, Result
from andiron.ranges import Count
from andiron_lab.batch_pictures import only_images, tiled
from andiron_lab.masks.segmentation import SegmentationOutput

# Okabe & Ito 2008, "Color Universal Design": distinguishable with any colour vision
COLOURS = {
    "blue": (0, 114, 178),
    "vermilion": (213, 94, 0),
    "green": (0, 158, 115),
    "purple": (204, 121, 167),
    "orange": (230, 159, 0),
    "sky blue": (86, 180, 233),
    "black": (0, 0, 0),
    "yellow": (240, 228, 66),
}


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

    def __call__(self, item: SegmentationOutput, batch: object) -> Parts:
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


def overlaid(
    images: UInt8[Tensor, "number channels height width"],
    masks: Int16[Tensor, "number masks height width"],
) -> UInt8[Tensor, "number 3 height columns"]:
    """Each image, and beside it the image below each of its masks, in the colours of the classes.

    Class 0 has no colour, 1 the first of COLOURS, and so on; pixels without a class are white.
    """
    palette = torch.tensor([*COLOURS.values(), (255, 255, 255)])
    places = torch.where(masks < 0, len(COLOURS), (masks - 1) % len(COLOURS))
    below = images[:, :, None].expand(-1, 3, masks.shape[1], -1, -1)
    mixed = (below.int() + palette[places.long()].movedim(-1, 1)) // 2
    shown = torch.where(masks[:, None] == 0, below, mixed.to(torch.uint8))
    return torch.cat([below[:, :, 0], *shown.unbind(2)], dim=3)
