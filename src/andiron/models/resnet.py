"""Residual networks for small images."""

from collections.abc import Sequence
from itertools import pairwise, starmap
from typing import Annotated

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from andiron.models import shapes
from andiron.models.shapes import Images, Logits
from andiron.ranges import Count
from andiron.recording import keep_arguments

Depth = Annotated[int, Field(ge=8, le=10_000)]  # and 6n + 2, which the constructor checks


@keep_arguments
class ResNet(nn.Module):
    """Three stages of n residual blocks of 3x3 convolutions, depth = 6n + 2.

    Each stage has half the size and twice the channels of the one before. `width` is the channels
    of the first: 16 in the paper, with 0.27M parameters at depth 20, 0.46M at 32, 0.66M at 44,
    0.85M at 56 and 1.7M at 110. Convolutions start from N(0, 2 / fan_in) (He et al. 2015,
    arXiv:1502.01852, equation 10).
    Raises: ValueError if depth is not 6n + 2, or input_shape is not a shape of images.
    Source: He et al. 2015, arXiv:1512.03385, section 4.2.
    """

    def __init__(
        self, input_shape: Sequence[int], num_outputs: int, *, depth: Depth = 20, width: Count = 16
    ):
        super().__init__()
        channels, _, _ = shapes.of_images(input_shape, "ResNet")
        blocks_per_stage = _blocks_per_stage(depth)
        self.stem = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        widths = [width * 2**stage for stage in range(3) for _ in range(blocks_per_stage)]
        self.blocks = nn.Sequential(*starmap(Residual, pairwise([width, *widths])))
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, num_outputs)
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")

    def forward(self, images: Images) -> Logits:
        return self.head(self.blocks(self.stem(images)))


class Residual(nn.Module):
    """relu(x + F(x)), F two convolutions with batch norm and a ReLU between them.

    Where channels double, F has stride 2; x is reduced to every second row and column and padded
    with zeros for the new channels (option A of the paper: a shortcut has no parameters).
    """

    def __init__(self, entering: int, leaving: int):
        super().__init__()
        self.stride = 1 if entering == leaving else 2
        self.new_channels = leaving - entering
        self.layers = nn.Sequential(
            nn.Conv2d(entering, leaving, 3, stride=self.stride, padding=1, bias=False),
            nn.BatchNorm2d(leaving), nn.ReLU(),
            nn.Conv2d(leaving, leaving, 3, padding=1, bias=False), nn.BatchNorm2d(leaving),
        )  # fmt: skip

    def forward(
        self, inputs: Float[Tensor, "batch entering height width"]
    ) -> Float[Tensor, "batch leaving rows columns"]:
        shortcut = inputs
        if self.stride != 1:
            every_second = inputs[:, :, :: self.stride, :: self.stride]
            shortcut = functional.pad(every_second, (0, 0, 0, 0, 0, self.new_channels))
        return functional.relu(shortcut + self.layers(inputs))


def _blocks_per_stage(depth: int) -> int:
    blocks, rest = divmod(depth - 2, 6)
    if blocks < 1 or rest:
        below = 6 * max(blocks, 1) + 2
        raise ValueError(
            f"depth={depth}: a ResNet has 6n + 2 layers: 2 in each of n blocks in 3 stages, the "
            f"first and the last; the nearest are {below} and {below + 6}, the paper's are "
            "20, 32, 44, 56 and 110"
        )
    return blocks
