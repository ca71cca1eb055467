"""From samples as they are stored to a batch as a network takes it."""

import functools
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from andiron.data.dataset import Batch, RawBatch

PerChannel = float | tuple[float, ...]  # one number for all channels, or one for each


@dataclass(frozen=True)
class ImageBatcher:
    """Pixels to (pixel / scale - mean) / std, as float32 on the device.

    Mean and standard deviation are one number, or a tuple with one for each channel of [batch, channels, height, width].
    """

    mean: PerChannel
    std: PerChannel
    scale: float = 255.0
    channels_last: bool = False  # how the pixels lie in memory; the shape is the same

    def __call__(self, raw: RawBatch, device: torch.device) -> Batch:
        pixels = raw.inputs.to(device, non_blocking=True)
        if self.channels_last:
            pixels = pixels.contiguous(memory_format=torch.channels_last)
        if pixels.is_floating_point():
            pixels = pixels.to(torch.float32)
        if isinstance(self.mean, tuple) or isinstance(self.std, tuple):
            slope, offset = _slope_and_offset(self.mean, self.std, self.scale, device)
            # two operations: addcmul would be one, and takes twice as long on bytes
            inputs = (pixels * slope).add_(offset)
        else:
            # one operation, with the conversion in it: (x / scale - mean) / std = offset + slope * x
            inputs = torch.add(
                _offset(self.mean, self.std), pixels, alpha=1 / (self.scale * self.std)
            )
        return Batch(inputs, raw.targets.to(device, non_blocking=True))


@functools.lru_cache(maxsize=16)
def _offset(mean: float, std: float) -> Tensor:
    return torch.tensor(-mean / std)


@functools.lru_cache(maxsize=16)  # kept on the device: a copy there would wait at every batch
def _slope_and_offset(
    mean: PerChannel, std: PerChannel, scale: float, device: torch.device
) -> tuple[Float[Tensor, "channels 1 1"], Float[Tensor, "channels 1 1"]]:
    number = max(len(each) for each in (mean, std) if isinstance(each, tuple))
    means, stds = (torch.tensor(each, dtype=torch.float64).expand(number) for each in (mean, std))
    slope, offset = 1 / (scale * stds), -means / stds
    return slope.float()[:, None, None].to(device), offset.float()[:, None, None].to(device)
