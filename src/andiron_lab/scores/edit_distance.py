"""The edit distance between two sequences of tokens, for a whole batch at once."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

BASE = 0x9E3779B97F4A7C15 - 2**64  # 2^64 / golden ratio, odd, as a signed word
Rows = tuple[Int[Tensor, "batch _"], Int[Tensor, " batch"]]  # how many of each row count


def levenshtein(from_rows: Rows, to_rows: Rows) -> Int[Tensor, " batch"]:
    """The edit distance of each pair of rows, cut to their lengths; no reads from the device.

    D[i, j] = min(D[i-1, j] + 1, D[i-1, j-1] + (a_i != b_j), D[i, j-1] + 1). The first two are C[j],
    computed from the row above for all j at once; with them D[i, j] = min over k <= j of
    C[k] + j - k, a cumulative minimum. About ten operations for each token of `a`.
    Source: Wagner & Fischer 1974, "The string-to-string correction problem".
    """
    (a, a_lengths), (b, b_lengths) = from_rows, to_rows
    steps = torch.arange(b.shape[1] + 1, device=b.device)
    row = last = steps.expand(len(b), -1)
    for i in range(1, a.shape[1] + 1):
        replaced = row[:, :-1] + (a[:, i - 1 : i] != b)
        above = torch.cat([row[:, :1] + 1, torch.minimum(row[:, 1:] + 1, replaced)], dim=1)
        row = (above - steps).cummin(dim=1).values + steps
        last = torch.where((a_lengths == i)[:, None], row, last)
    return last.gather(1, b_lengths[:, None])[:, 0]


def to_front(tokens: Int[Tensor, "batch time"], keep: Bool[Tensor, "batch time"]) -> Rows:
    """The tokens to keep moved to the front of their row, in order, and their number."""
    order = (~keep).to(torch.uint8).argsort(dim=1, stable=True)
    return tokens.gather(1, order), keep.sum(dim=1)


def words(rows: Rows, separators: Sequence[int]) -> Rows:
    """A number for each word between separators, at the front of its row, and the words of a row.

    sum_k (token_k + 1) BASE^k mod 2^64, k = 1, 2, ... within the word: equal words have equal
    numbers; two different words share one with probability of about 2^-64.
    Source: Karp & Rabin 1987, "Efficient randomized pattern-matching algorithms".
    """
    tokens, lengths = rows
    steps = torch.arange(tokens.shape[1], device=tokens.device)
    is_separator = steps >= lengths[:, None]
    for separator in separators:
        is_separator = is_separator | (tokens == separator)
    word = is_separator.cumsum(dim=1)
    # the place in its word, from 1; 0 for a separator
    place = steps - torch.where(is_separator, steps, -1).cummax(dim=1).values
    powers = torch.full_like(steps, BASE).cumprod(0)[place - 1]
    empty = tokens.new_zeros(len(tokens), tokens.shape[1] + 1)
    terms = torch.where(is_separator, 0, (tokens + 1) * powers)
    numbers = empty.scatter_add(1, word, terms)
    num_tokens = empty.scatter_add(1, word, (~is_separator).to(empty.dtype))
    return to_front(numbers, num_tokens > 0)
