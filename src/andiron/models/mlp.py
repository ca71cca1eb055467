"""A multi-layer perceptron."""

import math
from collections.abc import Sequence
from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn

from andiron.models.category_embedding import CategoryEmbedding
from andiron.models.dropout import Dropout
from andiron.ranges import Count, Fraction


class MLP(nn.Module):
    """Linear layers of the `hidden` sizes, each with ReLU and dropout, and one to the outputs.

    With `category_counts`, a fact of tables with codes, these are embedded first.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        num_outputs: int,
        *,
        hidden: Sequence[Count] = (512, 256),
        dropout: Fraction = 0.0,
        category_counts: Sequence[int] | None = None,
    ):
        super().__init__()
        sizes = [math.prod(input_shape), *hidden]
        layers: list[nn.Module] = [nn.Flatten()]
        if category_counts is not None:
            embedding = CategoryEmbedding(category_counts)
            layers, sizes[0] = [embedding], embedding.num_outputs
        for fan_in, fan_out in pairwise(sizes):
            layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
            if dropout:
                layers.append(Dropout(dropout))
        self.layers = nn.Sequential(*layers, nn.Linear(sizes[-1], num_outputs))

    def forward(self, inputs: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch outputs"]:
        outputs: Tensor = self.layers(inputs)
        return outputs
