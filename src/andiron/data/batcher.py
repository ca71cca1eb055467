"""From samples as they are stored to a batch as a network takes it."""

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from andiron.data.dataset import Batch, RawBatch


@dataclass(frozen=True)
class ImageBatcher:
    """Pixels to (pixel / scale - mean) / std, as float32 on the device."""

    mean: float
    std: float
    scale: float = 255.0
    channels_last: bool = False  # how the pixels lie in memory; the shape is the same

    def __call__(self, raw: RawBatch, device: torch.device) -> Batch:
        pixels = raw.inputs.to(device, non_blocking=True)
        if self.channels_last:
            pixels = pixels.contiguous(memory_format=torch.channels_last)
        if pixels.is_floating_point():
            pixels = pixels.to(torch.float32)
        # one operation, with the conversion in it: (x / scale - mean) / std = offset + slope * x
        inputs = torch.add(self._offset, pixels, alpha=1 / (self.scale * self.std))
        return Batch(inputs, raw.targets.to(device, non_blocking=True))

    @functools.cached_property
    def _offset(self) -> Tensor:
        return torch.tensor(-self.mean / self.std)
