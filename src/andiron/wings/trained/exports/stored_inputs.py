"""The preprocessing of a run as a module, so that an exported program takes inputs as stored.

>>> from andiron.data import ImageBatcher
>>> pixels = torch.tensor([[[[0, 255]]]], dtype=torch.uint8)
>>> preprocessing(ImageBatcher(mean=0.5, std=0.25), pixels)(pixels).tolist()
[[[[-2.0, 2.0]]]]
"""

import dataclasses
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from andiron import errors
from andiron.data.splitting.described import BATCHERS


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
    if type(batcher) not in BATCHERS.values():
        raise errors.DataError(
            f"{type(batcher).__name__}: your own batcher is not exported; leave out --preprocessing"
        )
    settings = dataclasses.asdict(batcher)
    is_scaled = stored.is_floating_point() or stored.dtype == torch.uint8 or "scale" in settings
    if not is_scaled or not settings:  # tokens have no settings
        return Integers()
    # one number, or one for each entry of the first dimension of a sample
    shape = -1, *[1] * max(stored.dim() - 2, 0)
    mean, std, scale = (
        torch.tensor(settings.get(name, 1.0), dtype=torch.float64).view(shape)
        for name in ("mean", "std", "scale")
    )
    return Scaled(1 / (scale * std), -mean / std)
