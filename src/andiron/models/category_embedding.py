"""Categories of a table, given as codes, as vectors that are learned."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn


class CategoryEmbedding(nn.Module):
    """The columns that are numbers, then for each column of codes the vector of its category.

    `category_counts` has for each column the number of its codes, 0 for a number. Code 0, of an
    unknown category, is the zero vector.
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
