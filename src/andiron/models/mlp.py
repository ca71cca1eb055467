"""A multi-layer perceptron, which embeds the categories of a table."""

from __future__ import annotations  # help() shows them as they stand

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from andiron.models.dropout import Dropout
from andiron.ranges import Count, Fraction
from andiron.recording import keep_arguments


@keep_arguments
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
        return self.layers(inputs)


class CategoryEmbedding(nn.Module):
    """The number columns, then for each column of codes the vector of its category.

    `category_counts` has the number of codes of each column, 0 for a number. Code 0, an unknown
    category, is the zero vector.
    """

    def __init__(self, category_counts: Sequence[int]):
        super().__init__()
        self.numbers = [column for column, count in enumerate(category_counts) if not count]
        self.codes = [column for column, count in enumerate(category_counts) if count]
        counts = [category_counts[column] for column in self.codes]
        self.tables = nn.ModuleList(
            nn.Embedding(count, embedding_size(count), padding_idx=0) for count in counts
        )
        self.num_outputs = len(self.numbers) + sum(map(embedding_size, counts))

    def forward(self, inputs: Float[Tensor, "batch columns"]) -> Float[Tensor, "batch outputs"]:
        codes = inputs[:, self.codes].long()
        vectors = [table(codes[:, place]) for place, table in enumerate(self.tables)]
        return torch.cat([inputs[:, self.numbers], *vectors], dim=1)


def embedding_size(count: int) -> int:
    """min(600, 1.6 count^0.56), rounded.

    Source: Howard & Gugger 2020, fastai.tabular.model.emb_sz_rule.
    """
    return min(600, int(1.6 * count**0.56 + 0.5))
