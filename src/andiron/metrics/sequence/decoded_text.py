"""Tokens as text.

>>> decoded([*b"to be"])
'to be'
>>> decoded([1, 0, 1], vocabulary=["an", "b"])
'banb'
"""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Int
from torch import Tensor

from andiron import errors
from andiron.outputs import IGNORED

BYTES = 256  # the tokens there are without a vocabulary


def decoded(tokens: Sequence[int], vocabulary: Sequence[str] | None = None) -> str:
    """The text of the tokens; without a `vocabulary` of their texts, a token is a byte."""
    if vocabulary is not None:
        return "".join(vocabulary[token] for token in tokens)
    return bytes(tokens).decode(errors="replace")


def predictions_and_targets(
    item: Any, vocabulary: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """The texts of each sequence: the likeliest tokens, and the targets.

    Positions with IGNORED targets are left out of both. The tokens are read from the device.
    Raises: MismatchError if the text of the tokens is unknown.
    """
    classes = item.output.shape[-1]
    if vocabulary is None and classes != BYTES:
        raise errors.MismatchError(
            f"the text of {classes} different tokens is unknown; give vocabulary: the text of each "
            "token"
        )
    targets = item.targets.cpu()
    sides = item.output.argmax(dim=-1).cpu(), targets
    predicted, wanted = (_texts(side, targets, vocabulary) for side in sides)
    return predicted, wanted


def _texts(
    tokens: Int[Tensor, "batch time"],
    targets: Int[Tensor, "batch time"],
    vocabulary: Sequence[str] | None,
) -> list[str]:
    rows = zip(tokens, targets != IGNORED, strict=True)
    return [decoded(row[keep].tolist(), vocabulary) for row, keep in rows]
