"""From stored arrays to what a network takes: floats and pixels standardised, other integers as they are."""

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from andiron.data.dataset import Batch, RawBatch

Numbers = tuple[float, ...]


@dataclass(frozen=True)
class ArrayBatcher:
    """Floats and bytes to (input - mean) / std, as float32 on the device; other integers pass, as int64.

    Mean and deviation are in the unit of what is stored: one number, or one for each entry of a sample's first dimension
    (a column of a table, a channel of an image). Targets become int64 if they are integers or booleans, float32 if not.
    """

    mean: Numbers = (0.0,)
    std: Numbers = (1.0,)

    def __call__(self, raw: RawBatch, device: torch.device) -> Batch:
        inputs = raw.inputs.to(device, non_blocking=True)
        if inputs.is_floating_point() or inputs.dtype == torch.uint8:
            mean, std = self._on(device, inputs.dim() - 1)
            inputs = (inputs.to(torch.float32) - mean).div_(std)
        else:
            inputs = inputs.long()
        targets = raw.targets.to(device, non_blocking=True)
        return Batch(inputs, targets.float() if targets.is_floating_point() else targets.long())

    def _on(self, device: torch.device, rank: int) -> tuple[Tensor, Tensor]:
        """Mean and deviation there, shaped to be set against a batch of samples of that rank."""
        if (device, rank) not in self._held:
            shape = (-1, *[1] * (rank - 1)) if rank else ()
            mean, std = (
                torch.tensor(numbers, device=device).view(shape)
                for numbers in (self.mean, self.std)
            )
            self._held[device, rank] = mean, std
        return self._held[device, rank]

    @functools.cached_property
    def _held(self) -> dict[tuple[torch.device, int], tuple[Tensor, Tensor]]:
        return {}
