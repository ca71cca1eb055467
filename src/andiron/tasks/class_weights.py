"""The weights of classes in a loss."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Shaped
from torch import Tensor


def total_weight(
    weights: Shaped[Tensor, " classes"] | None, targets: Tensor, ignored_index: int | None
) -> Tensor | None:
    """The sum of the targets' weights, on the device; None for no weights or for probabilities."""
    if weights is None or targets.is_floating_point():
        return None
    if ignored_index is None:
        return weights[targets].sum()
    is_known = targets != ignored_index
    return (weights[torch.where(is_known, targets, 0)] * is_known).sum()


def positive(name: str, values: Sequence[float] | None) -> Float[Tensor, " classes"] | None:
    """The values as a tensor; a negative weight would train away from its class.

    Raises: ValueError for a value that is not positive.
    """
    if values is None:
        return None
    if not values or not all(0 < value < float("inf") for value in values):
        raise ValueError(f"{name}={[*values]}: each should be a number greater than 0")
    return torch.tensor(values, dtype=torch.float32)


def like(output: Tensor, weights: Shaped[Tensor, " classes"]) -> Shaped[Tensor, " classes"]:
    """The weights on the device and in the dtype of the output."""
    if weights.device == output.device and weights.dtype == output.dtype:
        return weights
    with torch.inference_mode(False):  # a tensor from inference mode cannot be used in training
        return weights.to(output.device, output.dtype)
