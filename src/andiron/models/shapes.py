"""The sample shapes that networks accept, and the types of their batches."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

Images = Float[Tensor, "batch channels height width"]
Logits = Float[Tensor, "batch classes"]


def of_images(input_shape: Sequence[int], network: str) -> tuple[int, int, int]:
    """The channels, height and width in `input_shape`.

    Raises: ValueError, naming the network, if it is not a shape of images.
    """
    if len(input_shape) != 3 or min(input_shape) < 1:
        raise ValueError(
            f"input_shape={tuple(input_shape)}: {network} reads images, of shape (channels, "
            "height, width); choose data with images, or a network for vectors, such as MLP"
        )
    channels, height, width = input_shape
    return channels, height, width
