"""A language model that predicts the next token."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from andiron import inference
from andiron.models import transformer
from andiron.models.dropout import Dropout
from andiron.models.transformer import KeysValues
from andiron.ranges import Count, Fraction, Layers
from andiron.recording import keep_arguments

COLDEST = 1e-30  # of a temperature: logits divided by less could overflow float32


@keep_arguments
class GPT(nn.Module):
    """Token and position embeddings, `layers` causal transformer blocks, logits of the next token.

    The head shares the token embedding's weight (Press & Wolf 2017, arXiv:1608.05859). Unlike in
    GPT-2, GELU is exact and attention weights are not dropped.
    Raises: ValueError if dim is not divisible by heads.
    Source: Radford et al. 2019, "Language models are unsupervised multitask learners", section 2.3.
    """

    def __init__(
        self,
        vocabulary_size: int,
        context_length: int,
        *,
        layers: Layers,
        heads: Count,
        dim: Count,
        dropout: Fraction = 0.0,
    ):
        super().__init__()
        self.context_length = context_length
        self.embedding = Embedding(vocabulary_size, dim, context_length=context_length)
        self.dropout = Dropout(dropout)
        self.blocks = transformer.blocks(
            layers, dim, heads, hidden=4 * dim, dropout=dropout, is_causal=True
        )
        self.norm = nn.LayerNorm(dim)
        # on "meta": no memory for a weight that is replaced
        self.head = nn.Linear(dim, vocabulary_size, bias=False, device="meta")
        self.head.weight = self.embedding.weight
        transformer.initialise(self, layers=layers)

    def forward(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time vocabulary"]:
        """Logits of the next token at each position, from it and the positions before.

        Raises: ValueError if there are more tokens than the context holds.
        """
        if tokens.shape[1] > self.context_length:
            raise ValueError(
                f"a sequence of {tokens.shape[1]} tokens does not fit context_length="
                f"{self.context_length}; cut it, or build the network with a longer context"
            )
        return self.head(self.norm(self.blocks(self.dropout(self.embedding(tokens)))))

    def generate(
        self,
        tokens: Int[Tensor, "batch time"],
        number: int,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        generator: torch.Generator | None = None,
        is_cached: bool = True,
    ) -> Int[Tensor, "batch number"]:
        """The next `number` tokens, each sampled from softmax(logits / temperature).

        At temperature 0 it is the likeliest. With `top_k`, only the k likeliest can be sampled.
        Each is computed from the last `context_length` tokens, in evaluation mode, without
        gradients. Until the context is full, `is_cached` computes only the new position, with
        cached keys and values; its logits differ from a full pass by rounding. After that every
        token's position moves, and each pass is full.
        Raises: ValueError without a first token, or if a setting is out of range.
        """
        drawn = self._draws(tokens, temperature, top_k, generator, is_cached)
        with inference.valid(self):
            sequence = torch.cat([tokens[:, :0], *itertools.islice(drawn, number)], dim=1)
        return sequence.clone()  # outside: an inference tensor would refuse autograd

    def stream(
        self, tokens: Int[Tensor, "batch time"], number: int, **settings: Any
    ) -> Iterator[Int[Tensor, "batch 1"]]:
        """The tokens of `generate`, with the same settings, each as soon as it is sampled."""
        drawn = self._draws(tokens, **settings)
        for _ in range(number):
            with inference.valid(self):
                token = next(drawn)
            yield token.clone()

    def _draws(
        self,
        tokens: Tensor,
        temperature: float = 1.0,
        top_k: int | None = None,
        generator: torch.Generator | None = None,
        is_cached: bool = True,
    ) -> Iterator[Int[Tensor, "batch 1"]]:
        """The tokens after `tokens`, without end; each pass runs when its token is requested."""
        self._check_sampling(tokens, temperature, top_k)
        context_length = self.context_length
        past = [KeysValues(context_length) for _ in self.blocks] if is_cached else None
        while True:
            if tokens.shape[1] > context_length:
                tokens, past = tokens[:, -context_length:], None
            logits = self(tokens)[:, -1] if past is None else self._last_logits(tokens, past)
            drawn = _sample(logits, temperature, top_k, generator)
            yield drawn
            tokens = torch.cat([tokens, drawn], dim=1)

    def _last_logits(
        self, tokens: Int[Tensor, "batch time"], past: Sequence[KeysValues]
    ) -> Float[Tensor, "batch vocabulary"]:
        """The logits after the last token; `past`, of each block, is extended to it."""
        vectors = self.embedding(tokens[:, past[0].length :], past[0].length)
        for block, seen in zip(self.blocks, past, strict=True):
            vectors = block(vectors, seen)
        return self.head(self.norm(vectors[:, -1]))

    def _check_sampling(self, tokens: Tensor, temperature: float, top_k: int | None) -> None:
        vocabulary_size = self.head.out_features
        if not tokens.shape[1]:
            raise ValueError("there is no token to follow; begin with one, such as a line break")
        if not 0 <= temperature < math.inf:
            raise ValueError(
                f"temperature={temperature}: should be positive, or 0 for the likeliest token"
            )
        if top_k is not None and not 1 <= top_k <= vocabulary_size:
            raise ValueError(
                f"top_k={top_k}: should be between 1 and the {vocabulary_size} tokens there are, "
                "or None for all"
            )


class Embedding(nn.Embedding):
    """A learned vector for each token, plus one for its position.

    One module for both, so that rules for parameter groups see both as the first layer.
    """

    def __init__(self, vocabulary_size: int, dim: int, *, context_length: int):
        super().__init__(vocabulary_size, dim)
        self.positions = nn.Parameter(torch.empty(context_length, dim))
        nn.init.normal_(self.positions, std=transformer.STD)

    def forward(
        self, input: Int[Tensor, "batch time"], begin: int = 0
    ) -> Float[Tensor, "batch time dim"]:
        return super().forward(input) + self.positions[begin : begin + input.shape[1]]


def _sample(
    logits: Float[Tensor, "batch vocabulary"],
    temperature: float,
    top_k: int | None,
    generator: torch.Generator | None,
) -> Int[Tensor, "batch 1"]:
    if temperature < COLDEST:
        return logits.argmax(-1, keepdim=True)
    likeliest, tokens = logits.float().topk(top_k or logits.shape[-1])
    places = torch.multinomial((likeliest / temperature).softmax(-1), 1, generator=generator)
    return tokens.gather(-1, places)
