"""Batchers: stored samples to normalised batches on the device, of images or other arrays."""

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from andiron.data import structures
from andiron.data.dataset import Batch, RawBatch, WeightedBatch

Numbers = tuple[float, ...]
PerChannel = float | Numbers  # one number for all channels, or one for each


@dataclass(frozen=True)
class ImageBatcher:
    """Pixels as (pixel / scale - mean) / std, in float32 on the device.

    `mean` and `std` are one number, or a tuple with one for each channel of
    [batch, channels, height, width].
    """

    mean: PerChannel
    std: PerChannel
    scale: float = 255.0
    channels_last: bool = False  # the memory format of the pixels; their shape is the same

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
            # one operation that also converts: (x / scale - mean) / std = offset + slope * x
            factor = 1 / (self.scale * self.std)
            inputs = torch.add(_offset(self.mean, self.std), pixels, alpha=factor)
        return Batch(inputs, raw.targets.to(device, non_blocking=True))


@dataclass(frozen=True)
class ArrayBatcher:
    """Floats and bytes as (input - mean) / std in float32; other integers as int64.

    `mean` and `std` are in the unit of the stored values: one number, or one for each entry of a
    sample's first dimension (a column of a table, a channel of an image). Integer and boolean
    targets become int64, others float32; the weights of samples stay. Batches of another structure
    are moved to the device, with float64 as float32 and all else as it is.
    """

    mean: Numbers = (0.0,)
    std: Numbers = (1.0,)

    def __call__(self, raw: Any, device: torch.device) -> Any:
        is_pair = isinstance(raw, RawBatch | WeightedBatch)
        if not is_pair or not all(isinstance(part, Tensor) for part in raw):
            return structures.mapped(_as_float32, structures.moved(raw, device))
        inputs = raw.inputs.to(device, non_blocking=True)
        if inputs.is_floating_point() or inputs.dtype == torch.uint8:
            mean, std = _mean_and_std(self.mean, self.std, device, inputs.dim() - 1)
            inputs = (inputs.to(torch.float32) - mean).div_(std)
        else:
            inputs = inputs.long()
        targets = raw.targets.to(device, non_blocking=True)
        batch = Batch(inputs, targets.float() if targets.is_floating_point() else targets.long())
        if isinstance(raw, RawBatch):
            return batch
        return WeightedBatch(*batch, raw.weights.to(device, non_blocking=True))


def _as_float32(leaf: Any) -> Any:
    return leaf.float() if getattr(leaf, "dtype", None) is torch.float64 else leaf


# cached on the device: a copy would synchronise at every batch
@functools.lru_cache(maxsize=16)
def _offset(mean: float, std: float) -> Tensor:
    return torch.tensor(-mean / std)


@functools.lru_cache(maxsize=16)
def _slope_and_offset(
    mean: PerChannel, std: PerChannel, scale: float, device: torch.device
) -> tuple[Tensor, ...]:
    """Slope and offset of shape [channels, 1, 1], or [1, 1, 1] if the same for all channels."""
    means, stds = (torch.tensor(part, dtype=torch.float64) for part in (mean, std))
    slope_and_offset = 1 / (scale * stds), -means / stds
    return tuple(part.float().view(-1, 1, 1).to(device) for part in slope_and_offset)


@functools.lru_cache(maxsize=16)
def _mean_and_std(
    mean: Numbers, std: Numbers, device: torch.device, rank: int
) -> tuple[Tensor, ...]:
    """Mean and standard deviation, shaped to broadcast against samples of that rank."""
    shape = (-1, *[1] * (rank - 1)) if rank else ()
    return tuple(torch.tensor(part, device=device).view(shape) for part in (mean, std))
