"""Dropout whose mask on a CPU is cut from random 64-bit words, four elements to a word."""

from __future__ import annotations  # help() shows them as they stand

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from andiron.ranges import Fraction, checked
from andiron.recording import keep_arguments

LANES = 4  # 16-bit lanes in a 64-bit word
LEVELS = 2**16  # values of a lane: the resolution of the keep rate


@keep_arguments
@checked
class Dropout(nn.Module):
    """Zeroes each element with probability `p` (to 1/65536 on a CPU) and scales the rest by
    1/(1-p).

    torch draws its CPU mask one element at a time, half of a small convolutional network's step; a
    word for four elements takes a tenth of that. The words come from torch's default generator,
    which the learner seeds from (seed, update): each layer continues where the one before stopped,
    so a mask is a function of (seed, update, layer) and no generator state is saved. On other
    devices torch's fused dropout runs.
    Raises: ValueError if p is not in [0, 1).
    """

    def __init__(self, p: Fraction = 0.5):
        super().__init__()
        self.p = p

    def forward(self, input: Float[Tensor, " *shape"]) -> Float[Tensor, " *shape"]:
        if not self.training or self.p == 0:
            return input
        if input.device.type != "cpu":
            return functional.dropout(input, self.p)
        dropped_levels = min(round(self.p * LEVELS), LEVELS - 1)
        scale = LEVELS / (LEVELS - dropped_levels)  # of the rounded rate: the mean is exact
        return input * keep_mask(input, dropped_levels).mul_(scale)

    def extra_repr(self) -> str:
        return f"p={self.p}"


def keep_mask(like: Tensor, dropped_levels: int) -> Float[Tensor, "..."]:
    """1 for the elements of `like` to keep, 0 for those whose lane is among the lowest levels.

    In the dtype of `like`: multiplying floats is 5 times faster than masked_fill or where on a CPU.
    """
    words = torch.empty((like.numel() + LANES - 1) // LANES, dtype=torch.int64)
    lanes = words.random_(-(2**63), None).view(torch.int16)  # -32768 ... 32767, equally likely
    mask = torch.empty_like(like, requires_grad=False)
    kept = lanes[: like.numel()].view(like.shape)
    # out=: half the time of comparing and then converting
    return torch.ge(kept, dropped_levels - LEVELS // 2, out=mask)
