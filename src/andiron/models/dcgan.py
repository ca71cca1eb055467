"""A generator and a discriminator of images, as two parts of one network."""

import math
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from andiron.models import shapes
from andiron.ranges import Count

SMALLEST = 16  # pixels a side that are convolved; 8x8 digits would be 2x2 after two strides
INITIAL_STD, SLOPE = 0.02, 0.2  # Radford et al. 2016, section 4


class GAN(nn.Module):
    """`generator`, from `latent` numbers to images in [-1, 1], and `discriminator`, from images to a logit each.

    Convolutions with stride 2 and batch norm for images of 16 pixels a side or more, in fours (28x28): `width` channels next to
    the image and twice as many inside. Linear layers of 4 * `width` units for others, such as 8x8 digits.
    Raises: ValueError if input_shape is no shape of images.
    Source: Radford, Metz & Chintala 2016, arXiv:1511.06434, section 3 (the convolutions).
    """

    def __init__(self, input_shape: Sequence[int], *, latent: Count = 64, width: Count = 64):
        super().__init__()
        shape = shapes.of_images(input_shape, "GAN")
        is_convolved = all(side >= SMALLEST and side % 4 == 0 for side in shape[1:])
        build = _convolutional if is_convolved else _linear
        self.latent = latent
        self.generator, self.discriminator = build(shape, latent, width)

    def forward(
        self, latents: Float[Tensor, "batch latent"]
    ) -> Float[Tensor, "batch channels height width"]:
        images: Tensor = self.generator(latents)
        return images


def _convolutional(
    shape: tuple[int, int, int], latent: int, width: int
) -> tuple[nn.Module, nn.Module]:
    channels, inner = shape[0], (2 * width, shape[1] // 4, shape[2] // 4)
    generator = nn.Sequential(
        nn.Linear(latent, math.prod(inner)), nn.Unflatten(1, inner), nn.BatchNorm2d(2 * width), nn.ReLU(),
        nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
        nn.ConvTranspose2d(width, channels, 4, 2, 1), nn.Tanh(),
    )  # fmt: skip
    discriminator = nn.Sequential(
        nn.Conv2d(channels, width, 4, 2, 1), nn.LeakyReLU(SLOPE),
        nn.Conv2d(width, 2 * width, 4, 2, 1), nn.BatchNorm2d(2 * width), nn.LeakyReLU(SLOPE),
        nn.Flatten(), nn.Linear(math.prod(inner), 1),
    )  # fmt: skip
    for module in (*generator, *discriminator):
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            nn.init.normal_(module.weight, std=INITIAL_STD)
            nn.init.zeros_(module.bias)  # type: ignore[arg-type]
    return generator, discriminator


def _linear(shape: tuple[int, int, int], latent: int, width: int) -> tuple[nn.Module, nn.Module]:
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
