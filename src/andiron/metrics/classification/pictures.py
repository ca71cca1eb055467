"""The images in a batch, and their pixels as a picture shows them.

>>> pixels(torch.zeros(3, 1, 8, 6), largest=4).shape
torch.Size([3, 1, 4, 3])
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torch.nn import functional


def images_in(batch: object) -> list[Tensor]:
    """The images [batch, 1 or 3, height, width] among the inputs or fields of a batch."""
    return [input_ for input_ in inputs_in(batch) if input_.ndim == 4 and input_.shape[1] in (1, 3)]


def inputs_in(batch: object) -> list[Tensor]:
    """The inputs of pairs, or every field that is a tensor."""
    if hasattr(batch, "inputs"):
        batch = [batch.inputs]
    elif not isinstance(batch, list | tuple):
        batch = (batch if isinstance(batch, Mapping) else vars(batch)).values()
    return [tensor for tensor in batch if isinstance(tensor, Tensor)]


def pixels(
    images: Float[Tensor, "batch channels height width"], largest: int
) -> UInt8[Tensor, "batch channels rows columns"]:
    """Images from their own minimum (0) to their own maximum (255), at most `largest` pixels high.

    Standardised inputs have no natural range.
    """
    step = -(-max(images.shape[2:]) // largest)
    images = functional.avg_pool2d(images, step, ceil_mode=True) if step > 1 else images
    low, high = images.amin((1, 2, 3), keepdim=True), images.amax((1, 2, 3), keepdim=True)
    scaled = (images - low) / torch.where(high > low, high - low, 1.0)
    return (255 * scaled).round().to(torch.uint8)
