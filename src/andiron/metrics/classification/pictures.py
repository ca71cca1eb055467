"""Pictures for writers, uint8 [channels, height, width], from tensors alone.

>>> tiled(torch.zeros(3, 1, 8, 6, dtype=torch.uint8), 2).shape
torch.Size([1, 16, 12])
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torch.nn import functional


def tiled(
    images: UInt8[Tensor, "number channels height width"], columns: int
) -> UInt8[Tensor, "channels rows_height columns_width"]:
    """The images row by row in one picture; unused places are black."""
    rows = -(-len(images) // columns)
    images = functional.pad(images, (0, 0, 0, 0, 0, 0, 0, rows * columns - len(images)))
    grid = images.reshape(rows, columns, *images.shape[1:]).permute(2, 0, 3, 1, 4)
    return grid.flatten(3, 4).flatten(1, 2)


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
