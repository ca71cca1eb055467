"""Mixup: samples mixed with each other, and their classes with them."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from andiron import errors
from andiron.data.augment.sample_random import Draws
from andiron.data.dataset import RawBatch, Samples
from andiron.ranges import Positive


@dataclass(frozen=True)
class Mixup:
    """Each sample mixed with the one before it in the shuffled batch; the first with the last.

    With (x_j, y_j) the other sample and its class as a one-hot vector, and one
    l ~ Beta(alpha, alpha) for the batch:

        x = l x_i + (1 - l) x_j,    y = l y_i + (1 - l) y_j

    Inputs become float32 in their unit, targets [batch, num_classes]. l is a function of (seed,
    epoch, index of the first sample); the mixed sample depends on its batch.
    Source: Zhang et al. 2017, arXiv:1710.09412, equation 1.
    """

    alpha: Positive
    num_classes: int
    name: str = "mixup"

    def __call__(self, raw: RawBatch, draws: Draws) -> RawBatch:
        weight = symmetric_beta(self.alpha, draws.uniform(self.name, 2, self)[0])
        return RawBatch(
            _mixed(raw.inputs.float(), weight), _mixed(self._one_hot(raw.targets), weight)
        )

    def _one_hot(self, targets: Samples) -> Float[Tensor, "batch classes"]:
        if targets.dim() == 2 and targets.is_floating_point():  # mixed before
            return targets
        if targets.dim() != 1 or targets.is_floating_point():
            raise errors.DataError(
                f"augmentation.{self.name}: mixes classes, one a sample, and the targets here are "
                f"{list(targets.shape)} of {targets.dtype}; leave it out"
            )
        rows = torch.zeros(len(targets), self.num_classes, device=targets.device)
        return rows.scatter_(1, targets[:, None], 1.0)


def symmetric_beta(alpha: float, uniform: Float[Tensor, "... 2"]) -> Float[Tensor, "..."]:
    """Numbers distributed as Beta(alpha, alpha), each from two uniform ones (u, v), none rejected.

    With c = cos(2 pi v) and r = u^(1/alpha), t = sqrt(2 alpha (1/r - 1)) c has Student's
    t-distribution with 2 alpha degrees of freedom, and 1/2 + t / (2 sqrt(2 alpha + t^2)) is beta
    distributed:

        1/2 + sign(c) / 2 sqrt((1 - r) c^2 / (r + (1 - r) c^2))

    Computed on the device of the draws, without synchronising.
    Source: Bailey 1994, "Polar generation of random variates with the t-distribution", Math.
    Comp. 62.
    """
    u, v = uniform.unbind(-1)
    c, r = (2 * math.pi * v).cos(), u ** (1 / alpha)
    square = (1 - r) * c.square()
    return 0.5 + 0.5 * c.sign() * (square / (r + square)).sqrt()


def _mixed(
    values: Samples, weight: Float[Tensor, ""]
) -> Samples:
    return torch.lerp(values.roll(1, 0), values, weight)
