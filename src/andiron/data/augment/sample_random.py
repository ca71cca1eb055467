"""Random numbers for the samples of a batch, each a function of (seed, epoch, index of the sample).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from andiron import randomness
from andiron.data.dataset import RawBatch


@dataclass(frozen=True)
class Draws:
    """The random numbers of a sample: the same in every batch, however it is gathered.

    `noted` gets the uniform numbers by purpose, if given.
    """

    seed: int
    epoch: int
    indices: Int[Tensor, " batch"]
    noted: dict[str, Any] | None = None

    def uniform(self, purpose: str, number: int = 1) -> Float[Tensor, "batch number"]:
        """`number` numbers in [0, 1) for every sample, on the device of the indices, by purpose."""
        numbers = randomness.uniform(self.seed, purpose, self.epoch, self.indices, number)
        if self.noted is not None:
            self.noted[purpose] = numbers
        return numbers

    def generator(self, purpose: str) -> torch.Generator:
        """A CPU generator for the whole batch: a function of (seed, epoch, first index)."""
        return randomness.stream(self.seed, purpose, self.epoch, int(self.indices[0]))


Augmentation = Callable[[RawBatch, Draws], RawBatch]  # of stored samples, on their device
