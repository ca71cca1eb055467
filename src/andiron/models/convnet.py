"""The convolutional network of the Burn book's guide."""

from __future__ import annotations  # help() shows them as they stand

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from andiron.models import shapes
from andiron.models.dropout import Dropout
from andiron.models.shapes import Images, Logits
from andiron.ranges import Count, Fraction
from andiron.recording import keep_arguments

SMALLEST = 5  # pixels a side that two 3x3 convolutions need
SIDE = 8  # of the pooled images


@keep_arguments
class ConvNet(nn.Module):
    """3x3 convolutions of 8 and 16 channels, average pool to 8x8, two linear layers, dropout.

    As in the source, no activation stands between the convolutions.
    Raises: ValueError if input_shape is not a shape of images of at least 5x5.
    Source: the Burn book, "Basic workflow: from training to inference", model section.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        num_outputs: int,
        *,
        hidden: Count = 512,
        dropout: Fraction = 0.5,
    ):
        super().__init__()
        channels, height, width = shapes.of_images(input_shape, "ConvNet")
        if min(height, width) < SMALLEST:
            raise ValueError(
                f"input_shape={tuple(input_shape)}: ConvNet reads images of at least "
                f"{SMALLEST}x{SMALLEST}; choose larger ones, or another network, such as MLP"
            )
        self.features = nn.Sequential(
            nn.Conv2d(channels, 8, 3), Dropout(dropout),
            nn.Conv2d(8, 16, 3), Dropout(dropout), nn.ReLU(),
            AdaptiveAvgPool2d(SIDE), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Sequential(
            nn.Linear(16 * SIDE * SIDE, hidden), Dropout(dropout), nn.ReLU(),
            nn.Linear(hidden, num_outputs),
        )  # fmt: skip

    def forward(self, images: Images) -> Logits:
        return self.head(self.features(images))


class AdaptiveAvgPool2d(nn.AdaptiveAvgPool2d):
    """Torch's; on a GPU by matrix products, because its kernel there adds in varying order."""

    def forward(self, images: Tensor) -> Tensor:
        if not images.is_cuda:
            return super().forward(images)
        return by_products(images, SIDE)


def by_products(
    images: Float[Tensor, "batch channels height width"], side: int
) -> Float[Tensor, "batch channels {side} {side}"]:
    """Torch's `adaptive_avg_pool2d`: products with the means of rows and of columns."""

    def means(size: int) -> Tensor:
        unit = torch.eye(size, dtype=images.dtype, device=images.device)
        return functional.adaptive_avg_pool1d(unit, side)

    rows, columns = map(means, images.shape[-2:])
    return rows.mT @ (images @ columns)
