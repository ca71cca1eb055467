"""From samples as they are stored to a batch as a network takes it."""

from dataclasses import dataclass

import torch

from andiron.data.arrays import Batch, RawBatch


@dataclass(frozen=True)
class ImageBatcher:
    """Pixels to (pixel / scale - mean) / std, as float32 on the device."""

    mean: float
    std: float
    scale: float = 255.0
    channels_last: bool = False  # how the pixels lie in memory; the shape is the same

    def __call__(self, raw: RawBatch, device: torch.device) -> Batch:
        layout = torch.channels_last if self.channels_last else torch.preserve_format
        pixels = raw.inputs.to(device, non_blocking=True).to(torch.float32, memory_format=layout)
        # one multiplication and one addition: (x / scale - mean) / std = x * slope - offset
        inputs = pixels.mul(1 / (self.scale * self.std)).sub_(self.mean / self.std)
        return Batch(inputs, raw.targets.to(device, non_blocking=True))
