"""The texts of a language model's predictions and of their targets."""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Int
from torch import Tensor

from andiron import errors
from andiron.outputs import IGNORED
from andiron.plain.token_texts import BYTES, decoded


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
