"""The images of a batch, and several pictures as one, uint8 [channels, height, width].

>>> import torch
>>> tiled(torch.zeros(3, 1, 8, 6, dtype=torch.uint8), 2).shape
torch.Size([1, 16, 12])
"""

from jaxtyping import UInt8
from torch import Tensor
from torch.nn import functional

from andiron import errors
from andiron.metrics.classification.pictures import images_in, inputs_in


def tiled(
    images: UInt8[Tensor, "number channels height width"], columns: int
) -> UInt8[Tensor, "channels rows_height columns_width"]:
    """The images row by row in one picture; unused places are black."""
    rows = -(-len(images) // columns)
    images = functional.pad(images, (0, 0, 0, 0, 0, 0, 0, rows * columns - len(images)))
    grid = images.reshape(rows, columns, *images.shape[1:]).permute(2, 0, 3, 1, 4)
    return grid.flatten(3, 4).flatten(1, 2)


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
