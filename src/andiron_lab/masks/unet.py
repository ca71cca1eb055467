"""The U-Net, which gives a class for each pixel of an image."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from andiron.models import shapes
from andiron.models.shapes import Images
from andiron.ranges import Count
from andiron.recording import keep_arguments


@keep_arguments
class UNet(nn.Module):
    """A contracting path of `depth` halvings, and an expanding one beside it, for any image size.

    At each size two 3x3 convolutions with normalisation and ReLU; `width` channels at the full
    size, doubled at each halving; on the way up the features of the same size are joined by
    channel. With a width of 64 as in the paper there are 31M parameters, with 16 there are 1.9M.
    Unlike in the paper, convolutions are padded and normalised: logits have the size of the image.
    `norm` is of up to 8 groups of channels, which takes any batch, also a last one of one picture;
    or of the batch, which needs several values of each channel at the smallest size.
    Raises: ValueError if input_shape is not a shape of images.
    Source: Ronneberger et al. 2015, arXiv:1505.04597, section 2 and figure 1; Wu & He 2018,
    arXiv:1803.08494 (GroupNorm).
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        num_outputs: int,
        *,
        width: Count = 16,
        depth: Annotated[int, Field(ge=1, le=8)] = 4,
        norm: Literal["group", "batch"] = "group",
    ):
        super().__init__()
        channels, _, _ = shapes.of_images(input_shape, "UNet")
        widths = [width * 2**level for level in range(depth + 1)]
        block = partial(_block, of_groups=norm == "group")
        self.down = nn.ModuleList(block(*pair) for pair in pairwise([channels, *widths]))
        rising = [*pairwise(reversed(widths))]
        self.up = nn.ModuleList(nn.ConvTranspose2d(*pair, 2, stride=2) for pair in rising)
        self.joint = nn.ModuleList(block(*pair) for pair in rising)
        self.head = nn.Conv2d(width, num_outputs, 1)

    def forward(self, images: Images) -> Float[Tensor, "batch classes height width"]:
        first, *others = self.down
        features, passed = first(images), []
        for block in others:
            passed.append(features)
            features = block(functional.max_pool2d(features, 2, ceil_mode=True))
        for up, block in zip(self.up, self.joint, strict=True):
            height, width = passed[-1].shape[2:]  # odd ones were rounded up
            larger = up(features)[:, :, :height, :width]
            features = block(torch.cat([passed.pop(), larger], 1))
        return self.head(features)


def _block(entering: int, leaving: int, *, of_groups: bool) -> nn.Sequential:
    def norm() -> nn.Module:
        if of_groups:
            return nn.GroupNorm(math.gcd(8, leaving), leaving)
        return nn.BatchNorm2d(leaving)

    return nn.Sequential(
        nn.Conv2d(entering, leaving, 3, padding=1, bias=False), norm(), nn.ReLU(),
        nn.Conv2d(leaving, leaving, 3, padding=1, bias=False), norm(), nn.ReLU(),
    )  # fmt: skip
