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
from typing import Annotated, Any, Literal

import torch
from jaxtyping import Float, Int, Shaped
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from andiron import errors
from andiron.data import structures
from andiron.data.augment.sample_random import Draws
from andiron.data.dataset import RawBatch
from andiron.ranges import Count, Index, Probability

Images = Shaped[Tensor, "batch channels height width"]


@dataclass(frozen=True)
class Shift:
    """Images moved by up to `pixels` vertically and horizontally, uniformly; filled with zeros."""

    pixels: Index
    name: str = "shift"

    def __call__(self, raw: RawBatch, draws: Draws) -> RawBatch:
        _check(self, raw, pixels=self.pixels)
        return _cropped(raw, self, draws, self.pixels)


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
        _check(self, raw, padding=self.padding)
        return _cropped(raw, self, draws, self.padding, is_mirrored=self.border == "mirror")


@dataclass(frozen=True)
class Flip:
    """Images mirrored, each with `probability`: horizontally, or else vertically.

    Both draw two numbers, and use the first and the second.
    """

    probability: Probability = 0.5
    horizontal: bool = True
    name: str = "flip"

    def __call__(self, raw: RawBatch, draws: Draws) -> RawBatch:
        _check(self, raw)
        number = draws.uniform(self.name, 2, self)[:, 0 if self.horizontal else 1]
        is_flipped = number[:, None, None, None] < self.probability
        flipped = raw.inputs.flip(-1 if self.horizontal else -2)
        return raw._replace(inputs=torch.where(is_flipped, flipped, raw.inputs))


@dataclass(frozen=True)
class Rotate:
    """Images rotated about their centre by up to `degrees` either way, uniformly; zero-filled.

    Bilinear interpolation; bytes are rounded to the nearest. Of classes, the nearest pixel.
    """

    degrees: Annotated[float, Field(ge=0, le=180)]
    name: str = "rotate"

    def __call__(self, raw: RawBatch, draws: Draws) -> RawBatch:
        _check(self, raw)
        radians = (2 * draws.uniform(self.name, 1, self)[:, 0] - 1) * math.radians(self.degrees)
        turned = _rotated(raw.inputs, radians, draws.new)
        return raw._replace(inputs=turned)


@dataclass(frozen=True)
class Cutout:
    """Images with a square of `size` by `size` pixels set to `fill`, centred at a random pixel.

    A square at the border is partly outside the image. An even size reaches one pixel further up
    and left. The paper fills standardised images with the mean of all pixels; 0 here is black.
    Targets that have places stay as they are.
    Source: DeVries & Taylor 2017, arXiv:1708.04552, section 3.2.
    """

    size: Count
    fill: Index = 0
    name: str = "cutout"

    def __call__(self, raw: RawBatch, draws: Draws) -> RawBatch:
        _check(self, raw, size=self.size)
        numbers = draws.uniform(self.name, 2, self).unbind(1)
        rows, columns = map(self._covered, raw.inputs.shape[2:], numbers)
        is_covered = rows[:, None, :, None] & columns[:, None, None, :]
        fill = self.fill if draws.new is None else draws.new
        return raw._replace(inputs=raw.inputs.masked_fill(is_covered, fill))

    def _covered(
        self, length: int, numbers: Float[Tensor, " batch"]
    ) -> Shaped[Tensor, "batch length"]:
        """A mask of the `length` positions that the square covers, for each image."""
        first = _below(length, numbers)[:, None] - self.size // 2
        places = torch.arange(length, device=numbers.device)
        return (places >= first) & (places < first + self.size)


def _check(augmentation: Any, raw: RawBatch, **reach: int) -> None:
    """Raises a DataError for samples that are not images or not larger than the pixel options.

    Also for targets that have places, unless the augmentation moves nothing.
    """
    name, shape = augmentation.name, tuple(raw.inputs.shape[1:])
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
    if not isinstance(augmentation, Cutout):
        check_targets(raw, name)


def check_targets(raw: RawBatch, name: str) -> None:
    """Raises a DataError for targets that have places, which stay where the images move."""
    if structures.has_places(raw.targets):
        raise errors.DataError(
            f"augmentation.{name}: moves the images, but not their targets, which have places "
            f"({errors.shapes(raw, 'targets') or 'boxes'}); move pictures and masks together: "
            "andiron_lab.masks.OnFields(['inputs', 'targets'], ...), on the command line "
            "'+augmentation.both={_target_: andiron_lab.masks.OnFields, fields: [inputs, targets], "
            "augmentation: {_target_: andiron.data.Flip}}'; move boxes in the data set"
        )


def _below(number: int, uniform: Float[Tensor, "..."]) -> Int[Tensor, "..."]:
    """From [0, 1) to whole numbers from 0 to number - 1.

    Draws are multiples of 2^-24, so rounding never brings the product up to `number`.
    """
    return (uniform * number).long()


def _cropped(
    raw: RawBatch, augmentation: Any, draws: Draws, padding: int, *, is_mirrored: bool = False
) -> RawBatch:
    """The window of each padded image, as large as the image, at a place by two uniform numbers.

    Gathers rows of adjacent pixels, in half the time of gathering single pixels.
    """
    numbers = draws.uniform(augmentation.name, 2, augmentation)
    images, offsets = raw.inputs, _below(2 * padding + 1, numbers)
    batch, channels, height, width = images.shape
    padded = _mirrored(images, padding) if is_mirrored else functional.pad(
        images, (padding,) * 4, value=draws.new or 0
    )  # fmt: skip
    whole, line = padded.shape[2:]
    planes = torch.arange(batch * channels, device=images.device).view(batch, channels, 1) * whole
    rows = planes + offsets[:, :1, None] + torch.arange(height, device=images.device)
    starts = rows * line + offsets[:, 1:, None]
    chosen = padded.flatten().unfold(0, width, 1).index_select(0, starts.flatten())
    return raw._replace(inputs=chosen.view(images.shape))


def _mirrored(images: Tensor, padding: int) -> Tensor:
    """The images with a mirrored border; torch's reflection does not support bytes."""
    for dim in (2, 3):
        last = images.shape[dim] - 1
        places = torch.arange(-padding, last + padding + 1, device=images.device).abs()
        images = images.index_select(dim, last - (last - places).abs())
    return images


def _rotated(
    images: Images, radians: Float[Tensor, " batch"], new: int | None = None
) -> Images:
    """The images rotated anticlockwise; classes, by the nearest pixel, if `new` area has one.

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
    if new is None and not images.is_floating_point() and images.dtype != torch.uint8:
        new = 0
    pixels = images if images.is_floating_point() else images.float()
    if new is not None:
        pixels = images.double() - new  # 0 outside
    mode = "bilinear" if new is None else "nearest"
    turned = functional.grid_sample(pixels, grid.to(pixels.dtype), mode, align_corners=False)
    return turned if images.is_floating_point() else (turned + (new or 0)).round().to(images.dtype)
