"""Random shifts, crops, flips, rotations and cutouts of images.

Every random number is a function of (seed, epoch, index of the sample).

    >>> import torch
    >>> from andiron.data import Flip, RawBatch
    >>> from andiron.data.augment.sample_random import Draws
    >>> raw = RawBatch(torch.tensor([[[[1, 2, 3]]]]), torch.tensor([0]))
    >>> Flip(probability=1.0)(raw, Draws(seed=0, epoch=0, indices=torch.tensor([7]))).inputs
    tensor([[[[3, 2, 1]]]])
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int, Shaped
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from andiron import errors
from andiron.data.augment.sample_random import Draws
from andiron.data.dataset import RawBatch
from andiron.ranges import Count, Index, Probability

Images = Shaped[Tensor, "batch channels height width"]


@dataclass(frozen=True)
class Shift:
    """Images moved by up to `pixels` vertically and horizontally, uniformly; filled with zeros.

    The random numbers depend on `name`, here and below: two of one kind need different names.
    """

    pixels: Index
    name: str = "shift"

    def __call__(self, raw: RawBatch, draws: Draws) -> RawBatch:
        _check(raw, self.name, pixels=self.pixels)
        return Crop(self.pixels, name=self.name)(raw, draws)


@dataclass(frozen=True)
class Crop:
    """A random window, as large as the image, of the image with `padding` pixels around it.

    The border is `zero`, which is the distribution of Shift, or the `mirror` image of the pixels
    inside, without repeating the outermost.
    Source: He et al. 2015, arXiv:1512.03385, section 4.2, with 4 zeros on each side.
    """

    padding: Index
    border: Literal["zero", "mirror"] = "zero"
    name: str = "crop"

    def __call__(self, raw: RawBatch, draws: Draws) -> RawBatch:
        _check(raw, self.name, padding=self.padding)
        offsets = _below(2 * self.padding + 1, draws.uniform(self.name, 2))
        is_mirrored = self.border == "mirror"
        return raw._replace(inputs=_windows(raw.inputs, self.padding, offsets, is_mirrored))


@dataclass(frozen=True)
class Flip:
    """Images mirrored, each with `probability`: horizontally, or else vertically."""

    probability: Probability = 0.5
    horizontal: bool = True
    name: str = "flip"

    def __call__(self, raw: RawBatch, draws: Draws) -> RawBatch:
        _check(raw, self.name)
        is_flipped = draws.uniform(self.name)[:, :, None, None] < self.probability
        flipped = raw.inputs.flip(-1 if self.horizontal else -2)
        return raw._replace(inputs=torch.where(is_flipped, flipped, raw.inputs))


@dataclass(frozen=True)
class Rotate:
    """Images rotated about their centre by up to `degrees` either way, uniformly; zero-filled.

    Bilinear interpolation; bytes are rounded to the nearest.
    """

    degrees: Annotated[float, Field(ge=0, le=180)]
    name: str = "rotate"

    def __call__(self, raw: RawBatch, draws: Draws) -> RawBatch:
        _check(raw, self.name)
        radians = (2 * draws.uniform(self.name)[:, 0] - 1) * math.radians(self.degrees)
        return raw._replace(inputs=_rotated(raw.inputs, radians))


@dataclass(frozen=True)
class Cutout:
    """Images with a square of `size` by `size` pixels set to `fill`, centred at a random pixel.

    A square at the border is partly outside the image. An even size reaches one pixel further up
    and left. The paper fills standardised images with the mean of all pixels; 0 here is black.
    Source: DeVries & Taylor 2017, arXiv:1708.04552, section 3.2.
    """

    size: Count
    fill: Index = 0
    name: str = "cutout"

    def __call__(self, raw: RawBatch, draws: Draws) -> RawBatch:
        _check(raw, self.name, size=self.size)
        numbers = draws.uniform(self.name, 2).unbind(1)
        rows, columns = map(self._covered, raw.inputs.shape[2:], numbers)
        is_covered = rows[:, None, :, None] & columns[:, None, None, :]
        return raw._replace(inputs=raw.inputs.masked_fill(is_covered, self.fill))

    def _covered(
        self, length: int, numbers: Float[Tensor, " batch"]
    ) -> Shaped[Tensor, "batch length"]:
        """A mask of the `length` positions that the square covers, for each image."""
        first = _below(length, numbers)[:, None] - self.size // 2
        places = torch.arange(length, device=numbers.device)
        return (places >= first) & (places < first + self.size)


def _check(raw: RawBatch, name: str, **reach: int) -> None:
    """Raises a DataError for samples that are not images or not larger than the pixel options."""
    shape = tuple(raw.inputs.shape[1:])
    if len(shape) != 3:
        raise errors.DataError(
            f"augmentation.{name}: is for images of [channels, height, width], and a sample here "
            f"is {list(shape)}; leave it out"
        )
    for option, pixels in reach.items():
        if pixels >= min(shape[1:]):
            raise errors.DataError(
                f"augmentation.{name}.{option}={pixels}: should be below {min(shape[1:])}, "
                f"as images are {shape[1]}x{shape[2]}"
            )


def _below(number: int, uniform: Float[Tensor, "..."]) -> Int[Tensor, "..."]:
    """From [0, 1) to whole numbers from 0 to number - 1.

    Draws are multiples of 2^-24, so rounding never brings the product up to `number`.
    """
    return (uniform * number).long()


def _windows(
    images: Images, padding: int, offsets: Int[Tensor, "batch 2"], is_mirrored: bool
) -> Images:
    """The window at (row, column) `offsets` of each padded image, as large as the image.

    Gathers rows of adjacent pixels, in half the time of gathering single pixels.
    """
    batch, channels, height, width = images.shape
    padded = _mirrored(images, padding) if is_mirrored else functional.pad(images, (padding,) * 4)
    whole, line = padded.shape[2:]
    planes = torch.arange(batch * channels, device=images.device).view(batch, channels, 1) * whole
    rows = planes + offsets[:, :1, None] + torch.arange(height, device=images.device)
    starts = rows * line + offsets[:, 1:, None]
    return padded.flatten().unfold(0, width, 1).index_select(0, starts.flatten()).view(images.shape)


def _mirrored(images: Tensor, padding: int) -> Tensor:
    """The images with a mirrored border; torch's reflection does not support bytes."""
    for dim in (2, 3):
        last = images.shape[dim] - 1
        places = torch.arange(-padding, last + padding + 1, device=images.device).abs()
        images = images.index_select(dim, last - (last - places).abs())
    return images


def _rotated(images: Images, radians: Float[Tensor, " batch"]) -> Images:
    """The images rotated anticlockwise.

    Pixel (x, y), counted from the centre, comes from (x cos - y sin, x sin + y cos). Computed
    without a matrix product, whose last bits would depend on the batch size.
    """
    height, width = images.shape[2:]
    x, y = (
        torch.arange(length, device=images.device) - (length - 1) / 2 for length in (width, height)
    )
    y = y[:, None]
    cos, sin = radians.cos()[:, None, None], radians.sin()[:, None, None]
    across, down = 2 / width, 2 / height  # the grid goes from -1 to 1 over the image
    grid = torch.stack(
        [x * cos * across - y * sin * across, x * sin * down + y * cos * down], dim=-1
    )
    pixels = images if images.is_floating_point() else images.float()
    turned = functional.grid_sample(pixels, grid.to(pixels.dtype), align_corners=False)
    return turned if images.is_floating_point() else turned.round().to(images.dtype)
