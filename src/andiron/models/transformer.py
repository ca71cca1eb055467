"""The blocks of transformers of images and of text."""

import math
from collections import OrderedDict
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from andiron.models.dropout import Dropout

Vectors = Float[Tensor, "batch time dim"]
Heads = Float[Tensor, "batch heads time part"]
AllHeads = Float[Tensor, "batch heads seen part"]
# of initial weights: Radford et al. 2018, "Improving language understanding by generative
# pre-training", section 4.1
STD = 0.02


class KeysValues:
    """The cached keys and values of one causal attention, for generation.

    Memory for `context_length` positions is allocated at the first.
    """

    def __init__(self, context_length: int):
        self.context_length = context_length
        self.length = 0  # positions seen
        self._stored: tuple[Tensor, Tensor] | None = None

    def extended(self, keys: Heads, values: Heads) -> tuple[AllHeads, AllHeads]:
        """The keys and values of all positions seen, with these appended."""
        if self._stored is None:
            batch, heads, _, part = keys.shape
            shape = batch, heads, self.context_length, part
            self._stored = keys.new_empty(shape), values.new_empty(shape)
        begin, self.length = self.length, self.length + keys.shape[2]
        for stored, new in zip(self._stored, (keys, values), strict=True):
            stored[:, :, begin : self.length] = new
        keys, values = (stored[:, :, : self.length] for stored in self._stored)
        return keys, values


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x)), both branches with dropout.

    Source: Vaswani et al. 2017, arXiv:1706.03762, with the norms first (pre-norm) as in Radford et
    al. 2019, section 2.3.
    """

    def __init__(self, dim: int, heads: int, *, hidden: int, dropout: float, is_causal: bool):
        super().__init__()
        self.attention_norm = nn.LayerNorm(dim)
        self.attention = Attention(dim, heads, is_causal=is_causal)
        self.feed_forward_norm = nn.LayerNorm(dim)
        # an exact GELU
        self.feed_forward = nn.Sequential(
            OrderedDict(
                expansion=nn.Linear(dim, hidden), gelu=nn.GELU(), projection=nn.Linear(hidden, dim)
            )
        )
        self.dropout = Dropout(dropout)

    def forward(self, inputs: Vectors, past: KeysValues | None = None) -> Vectors:
        middle = inputs + self.dropout(self.attention(self.attention_norm(inputs), past))
        return middle + self.dropout(self.feed_forward(self.feed_forward_norm(middle)))


def blocks(number: int, *args: Any, **kwargs: Any) -> nn.Sequential:
    """`number` blocks with the same arguments, one after another."""
    return nn.Sequential(*(Block(*args, **kwargs) for _ in range(number)))


class Attention(nn.Module):
    """softmax(Q K^T / sqrt(dim / heads)) V in each head, then a projection of all heads together.

    With `is_causal` a position attends to itself and earlier ones. Attention weights have no
    dropout, and are not stored if torch has a fused kernel (flash attention: Dao et al. 2022,
    arXiv:2205.14135). With `past`, which it extends, the inputs are the positions after the cached
    ones: all of the first positions, then one at a time.
    Raises: ValueError if `heads` does not divide `dim`.
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.
    """

    def __init__(self, dim: int, heads: int, *, is_causal: bool):
        super().__init__()
        if dim % heads:
            raise ValueError(
                f"dim={dim} is not divisible by heads={heads}; each head takes an equal part of dim"
            )
        self.heads = heads
        self.is_causal = is_causal
        self.queries_keys_values = nn.Linear(dim, 3 * dim)
        self.projection = nn.Linear(dim, dim)

    def forward(self, inputs: Vectors, past: KeysValues | None = None) -> Vectors:
        parts = self.queries_keys_values(inputs).chunk(3, dim=-1)
        queries, keys, values = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts
        )
        is_causal = self.is_causal
        if past is not None:
            keys, values = past.extended(keys, values)
            is_causal = queries.shape[2] == keys.shape[2]  # a single one sees all before it
        mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=is_causal)
        return self.projection(mixed.transpose(1, 2).flatten(2))


def initialise(network: nn.Module, *, layers: int) -> None:
    """Weights of linear layers and embeddings from N(0, 0.02^2), biases 0.

    The two projections that each block adds to its input start from N(0, 0.02^2 / (2 layers)), so
    that the sum does not grow with depth.
    Source: Radford et al. 2019, "Language models are unsupervised multitask learners", section 2.3.
    """
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            is_added = name.endswith("projection")
            nn.init.normal_(module.weight, std=STD / math.sqrt(2 * layers) if is_added else STD)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
