"""A generator and a discriminator of images, as two parts of one network."""

import math
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from andiron.models import shapes
from andiron.models.shapes import Images
from andiron.ranges import Count
from andiron.recording import keep_arguments

Shape = tuple[int, int, int]
SMALLEST = 16  # pixels a side for convolutions; 8x8 digits would be 2x2 after two strides
INITIAL_STD, SLOPE = 0.02, 0.2  # Radford et al. 2016, section 4


@keep_arguments
class GAN(nn.Module):
    """`generator`: `latent` numbers to images in [-1, 1]; `discriminator`: images to a logit each.

    Images of at least 16 pixels a side, divisible by 4 (28x28), get convolutions of stride 2 with
    batch norm: `width` channels next to the image, twice as many inside. Others, such as 8x8
    digits, get linear layers of 4 * `width` units.
    Raises: ValueError if input_shape is not a shape of images.
    Source: Radford, Metz & Chintala 2016, arXiv:1511.06434, section 3 (the convolutions).
    """

    def __init__(self, input_shape: Sequence[int], *, latent: Count = 64, width: Count = 64):
        super().__init__()
        shape = shapes.of_images(input_shape, "GAN")
        is_convolved = all(side >= SMALLEST and side % 4 == 0 for side in shape[1:])
        build = _convolutional if is_convolved else _linear
        self.latent = latent
        self.generator, self.discriminator = build(shape, latent, width)

    def forward(self, latents: Float[Tensor, "batch latent"]) -> Images:
        return self.generator(latents)


def _convolutional(shape: Shape, latent: int, width: int) -> tuple[nn.Module, nn.Module]:
    channels, wide = shape[0], 2 * width
    inner = wide, shape[1] // 4, shape[2] // 4
    units = math.prod(inner)
    generator = nn.Sequential(
        nn.Linear(latent, units), nn.Unflatten(1, inner), nn.BatchNorm2d(wide), nn.ReLU(),
        nn.ConvTranspose2d(wide, width, 4, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
        nn.ConvTranspose2d(width, channels, 4, 2, 1), nn.Tanh(),
    )  # fmt: skip
    discriminator = nn.Sequential(
        nn.Conv2d(channels, width, 4, 2, 1), nn.LeakyReLU(SLOPE),
        nn.Conv2d(width, wide, 4, 2, 1), nn.BatchNorm2d(wide), nn.LeakyReLU(SLOPE),
        nn.Flatten(), nn.Linear(units, 1),
    )  # fmt: skip
    for module in (*generator, *discriminator):
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            nn.init.normal_(module.weight, std=INITIAL_STD)
            nn.init.zeros_(module.bias)  # type: ignore[arg-type]
    return generator, discriminator


def _linear(shape: Shape, latent: int, width: int) -> tuple[nn.Module, nn.Module]:
    pixels, units = math.prod(shape), 4 * width
    generator = nn.Sequential(
        nn.Linear(latent, units), nn.ReLU(), nn.Linear(units, units), nn.ReLU(),
        nn.Linear(units, pixels), nn.Tanh(), nn.Unflatten(1, shape),
    )  # fmt: skip
    discriminator = nn.Sequential(
        nn.Flatten(), nn.Linear(pixels, units), nn.LeakyReLU(SLOPE),
        nn.Linear(units, units), nn.LeakyReLU(SLOPE), nn.Linear(units, 1),
    )  # fmt: skip
    return generator, discriminator
