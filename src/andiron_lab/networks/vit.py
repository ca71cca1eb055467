"""A small vision transformer."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from andiron.models import shapes, transformer
from andiron.models.dropout import Dropout
from andiron.models.shapes import Images, Logits
from andiron.ranges import Count, Fraction, Layers, Positive
from andiron.recording import keep_arguments


@keep_arguments
class ViT(nn.Module):
    """Square patches as a sequence of vectors, `depth` transformer blocks, a linear layer on the
    mean.

    The mean over the patches replaces the paper's class token (Beyer et al. 2022, arXiv:2205.01580:
    no worse).
    Raises: ValueError if the image is not divisible into patches, or dim into heads, or input_shape
    is not a shape of images.
    Source: Dosovitskiy et al. 2020, arXiv:2010.11929, section 3.1.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        num_outputs: int,
        *,
        patch: Count = 4,
        dim: Count = 128,
        depth: Layers = 6,
        heads: Count = 4,
        mlp_ratio: Positive = 4,
        dropout: Fraction = 0.0,
    ):
        super().__init__()
        self.patches = Patches(input_shape, dim, patch=patch)
        self.dropout = Dropout(dropout)
        hidden = round(mlp_ratio * dim)
        self.blocks = transformer.blocks(
            depth, dim, heads, hidden=hidden, dropout=dropout, is_causal=False
        )
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, num_outputs)
        transformer.initialise(self, layers=depth)

    def forward(self, images: Images) -> Logits:
        return self.head(
            self.norm(self.blocks(self.dropout(self.patches(images)))).mean(1)
        )


class Patches(nn.Conv2d):
    """A linear map of every patch, row by row, plus a learned vector for its position.

    One module for both, so that rules for parameter groups see both as the first layer.
    """

    def __init__(self, input_shape: Sequence[int], dim: int, *, patch: int):
        channels, height, width = shapes.of_images(input_shape, "ViT")
        if height % patch or width % patch:
            raise ValueError(
                f"patch={patch}: an image of {height}x{width} is not divisible into patches of "
                f"{patch}x{patch}; choose a divisor of both sides"
            )
        super().__init__(channels, dim, patch, stride=patch)
        self.positions = nn.Parameter(torch.empty(height // patch * (width // patch), dim))
        nn.init.normal_(self.positions, std=transformer.STD)

    def forward(self, input: Images) -> Float[Tensor, "batch patches dim"]:
        return super().forward(input).flatten(2).mT + self.positions
