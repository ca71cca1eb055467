"""The preprocessing of a run as a module, so that an exported program takes inputs as stored.

>>> from andiron.data import ImageBatcher
>>> pixels = torch.tensor([[[[0, 255]]]], dtype=torch.uint8)
>>> preprocessing(ImageBatcher(mean=0.5, std=0.25), pixels)(pixels).tolist()
[[[[-2.0, 2.0]]]]
"""

from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from andiron import errors
from andiron.data.batchers import ArrayBatcher, ImageBatcher
from andiron.data.on_disk.text_file import TextBatcher


class Scaled(nn.Module):
    """slope * input + offset in float32; both of shape [1], or with a value for each channel."""

    slope: Tensor
    offset: Tensor

    def __init__(self, slope: Float[Tensor, "..."], offset: Float[Tensor, "..."]):
        super().__init__()
        self.register_buffer("slope", slope.float())
        self.register_buffer("offset", offset.float())

    def forward(self, inputs: Shaped[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        return inputs.float() * self.slope + self.offset


class Integers(nn.Module):
    """Any integers as int64."""

    def forward(self, inputs: Shaped[Tensor, "batch ..."]) -> Shaped[Tensor, "batch ..."]:
        return inputs.long()


def preprocessing(batcher: Any, stored: Shaped[Tensor, "batch ..."]) -> nn.Module:
    """The preprocessing of `batcher`, up to rounding, for inputs of the dtype and rank of `stored`.

    Raises: DataError for a user's own batcher.
    """
    is_scaled = stored.is_floating_point() or stored.dtype == torch.uint8
    if isinstance(batcher, TextBatcher) or (isinstance(batcher, ArrayBatcher) and not is_scaled):
        return Integers()
    if isinstance(batcher, ArrayBatcher | ImageBatcher):
        mean, std = (_vector(numbers, stored.dim() - 1) for numbers in (batcher.mean, batcher.std))
        scale = batcher.scale if isinstance(batcher, ImageBatcher) else 1.0
        return Scaled(1 / (scale * std), -mean / std)
    raise errors.DataError(
        f"{type(batcher).__name__}: your own batcher is not exported; leave out --preprocessing"
    )


def _vector(numbers: float | tuple[float, ...], rank: int) -> Float[Tensor, "..."]:
    """Shape [1], or one number for each entry of the first dimension of samples of this rank."""
    shape = (-1, *[1] * (rank - 1)) if isinstance(numbers, tuple) else (1,)
    return torch.tensor(numbers, dtype=torch.float64).view(shape)
