"""The order of an epoch of any number of samples: nothing is as long as the data set.

>>> order = BlockOrder(10, seed=42, epoch=0, block=2, window=2)
>>> sorted(order[0:10].tolist()) == [*range(10)], torch.equal(order[3:7], order[0:10][3:7])
(True, True)
"""

import functools

import torch
from jaxtyping import Int
from torch import Tensor

from andiron import randomness

MOST_LISTED = 2**20  # indices in one tensor, of 8 MiB


def full_order(size: int, seed: int, epoch: int) -> randomness.Order:
    """A random permutation: listed up to MOST_LISTED samples, beyond them computed by slices."""
    if size <= MOST_LISTED:
        return randomness.permutation(size, seed, epoch)
    return randomness.LongOrder(size, seed, epoch)


class BlockOrder:
    """Blocks of consecutive samples in random order, mixed within windows of several blocks.

    Block k has the samples k * `block` to (k + 1) * `block`; only the last may be shorter. The
    blocks take the places of a random permutation, but for the last one, which stays the last. A
    window has the samples of the next `window` blocks, in random order.
    """

    def __init__(self, size: int, seed: int, epoch: int, *, block: int, window: int):
        self.size, self.block, self.window = size, block, window
        self._seed, self._epoch = seed, epoch
        self._blocks = full_order(
            max(1, size // block), randomness.derive(seed, "order of blocks"), epoch
        )
        self._samples = functools.lru_cache(maxsize=2)(self._mixed)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, places: slice) -> Int[Tensor, " number"]:
        """The indices at consecutive places."""
        length = self.block * self.window
        return randomness.from_chunks(self._samples, length, *places.indices(self.size)[:2])

    def _mixed(self, number: int) -> Int[Tensor, " number"]:
        """The samples of one window."""
        first, whole = number * self.window, self.size // self.block
        blocks = self._blocks[first : min(first + self.window, whole)]
        samples = (blocks[:, None] * self.block + torch.arange(self.block)).flatten()
        if first + self.window > whole:  # the last block, which is short
            samples = torch.cat([samples, torch.arange(whole * self.block, self.size)])
        stream = randomness.stream(self._seed, "order in a window", self._epoch, number)
        return samples[torch.randperm(len(samples), generator=stream)]
