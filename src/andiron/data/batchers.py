"""A batch from stored samples: gathered, augmented; then a batcher normalises it on the device.

Worker processes gather and augment.
"""

import functools
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from andiron import errors
from andiron.data import structures
from andiron.data.augment.sample_random import Augmentation, Draws
from andiron.data.dataset import Batch, Dataset, RawBatch, WeightedBatch, drawn

Numbers = tuple[float, ...]
PerChannel = float | Numbers  # one number for all channels, or one for each


class Request(NamedTuple):
    """The indices of the samples to gather, and their epoch."""

    epoch: int
    indices: Any  # a tensor; a list for worker processes


@dataclass(frozen=True)
class Gather:
    """Gathers and augments the stored samples of a request.

    Raises: DataError for an augmentation that changes the targets of samples with weights: it mixes
    samples.
    """

    dataset: Dataset
    augmentations: tuple[Augmentation, ...]
    seed: int
    white: float | None = None  # of Draws

    def __call__(self, request: Request) -> Any:
        try:
            return self._gathered(request)
        except StopIteration as error:  # would silently end the epoch of whoever iterates
            raise RuntimeError("the data set raised StopIteration") from error

    def _gathered(self, request: Request) -> Any:
        indices = torch.as_tensor(request.indices)
        draws = Draws(self.seed, request.epoch, indices, white=self.white)
        raw = drawn(self.dataset, indices, draws)
        if type(raw) is tuple and len(raw) == 2:  # the (inputs, targets) of a user's data set
            raw = RawBatch(*raw)
        is_weighted = isinstance(raw, WeightedBatch)
        augmented = RawBatch(raw.inputs, raw.targets) if is_weighted else raw
        for place, augmentation in enumerate(self.augmentations):
            augmented = _augmented(augmentation, augmented, replace(draws, place=place))
            if is_weighted and augmented.targets is not raw.targets:
                name = augmentation_name(augmentation)
                raise errors.DataError(
                    f"augmentation: {name} changes targets, and samples with weights keep theirs; "
                    "leave one of the two out"
                )
        return raw._replace(inputs=augmented.inputs) if is_weighted else augmented

    def __getitem__(self, request: Request) -> Any:
        """Gathers in a worker process; returns errors, as torch would add its traceback."""
        try:
            with errors.exits_refused(KeyboardInterrupt):
                return self(request)
        except errors.AndironError as error:
            return error


def augmentation_name(augmentation: Augmentation) -> str:
    """The name that errors and records give an augmentation: of its class, unless it has one."""
    return str(getattr(augmentation, "name", type(augmentation).__name__))


def _augmented(augmentation: Augmentation, raw: Any, draws: Draws) -> Any:
    try:
        return augmentation(raw, draws)
    except Exception as error:
        given = errors.shapes(raw, "inputs") or type(raw).__name__
        name = augmentation_name(augmentation)
        what = f"augmentation: {name} cannot change {given}"
        errors.explain(error, what, "leave it out, or choose data that it is for")
        raise


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
