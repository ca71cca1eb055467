"""Adversarial training: a generator and a discriminator, each with a loss and gradients of its own, in one step."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn import functional

from andiron import errors, randomness
from andiron.data.dataset import Batch
from andiron.gradients import Gradients, backward
from andiron.outputs import AdversarialOutput, Weight
from andiron.protocols import TrainOutput
from andiron.ranges import Count, Number, Positive

Numbers = Number | Sequence[Number]
Scales = Positive | Sequence[Positive]


class Adversarial(nn.Module):
    """`network.generator`, from `network.latent` normal numbers to images in [-1, 1], against `network.discriminator`.

    With x the images of a batch, z the latents, D the logit that an image is real and s = sigmoid:
    discriminator's loss = -mean log s(D(x)) - mean log(1 - s(D(G(z)))), generator's = -mean log s(D(G(z))), which does not
    saturate where D is sure. Both are of the weights before the update: the two networks move at once. A pixel in [0, 1]
    is input_mean + input_std * what the batch holds; by these, one number or one for each channel, the images get into
    the generator's range. Parameters are named generator.* and discriminator.*, by which each may have its own optimizer.
    Raises: ValueError if the network lacks a part, or it is not told how to scale the images.
    Source: Goodfellow et al. 2014, arXiv:1406.2661, section 3.
    """

    slope: Tensor
    offset: Tensor

    def __init__(
        self,
        network: nn.Module,
        *,
        input_mean: Numbers | None = None,
        input_std: Scales | None = None,
        grid: Count = 4,
    ):
        super().__init__()
        missing = [
            part for part in ("generator", "discriminator", "latent") if not hasattr(network, part)
        ]
        if missing:
            raise ValueError(
                f"{type(network).__name__} has no {', '.join(missing)}; choose a network that has, such as GAN"
            )
        if input_mean is None or input_std is None:
            raise ValueError(
                "input_mean and input_std: the data does not tell them; give both (0.5 for images in [-1, 1])"
            )
        parts: Any = network
        self.generator: nn.Module = parts.generator
        self.discriminator: nn.Module = parts.discriminator
        self.latent: int = parts.latent
        self.grid = grid
        self.register_buffer("slope", 2 * _by_channel(input_std), persistent=False)
        self.register_buffer("offset", 2 * _by_channel(input_mean) - 1, persistent=False)

    def forward(
        self, latents: Float[Tensor, "batch latent"]
    ) -> Float[Tensor, "batch channels height width"]:
        images: Tensor = self.generator(latents)
        return images

    def train_step(self, batch: Batch) -> TrainOutput:
        """Both networks' gradients of one batch, and its output for the metrics; targets play no part."""
        latents = torch.randn(len(batch.inputs), self.latent, device=batch.inputs.device)
        return self.train_on(self._images(batch), latents)

    def train_on(
        self,
        images: Float[Tensor, "batch channels height width"],
        latents: Float[Tensor, "batch latent"],
    ) -> TrainOutput:
        """Both networks' gradients with these latents.

        The discriminator sees the generated images twice, so the statistics of a batch norm in it count them twice.
        """
        generated = self.generator(latents)
        with _held(self.discriminator):  # its own gradients of the generator's loss are nobody's
            loss = generator_loss_of(self._judged(generated))
            generators = _gradients(loss, self)
        real, fake = self._judged(images), self._judged(generated.detach())
        discriminator_loss = discriminator_loss_of(real, fake)
        discriminators = _gradients(discriminator_loss, self)
        both = Gradients(
            {**generators, **discriminators}, self, (loss + discriminator_loss).detach()
        )
        item = AdversarialOutput(loss, discriminator_loss, real, fake, weight=len(images))
        return TrainOutput(both, item.detached(), weight=len(images))

    def valid_step(self, batch: Batch) -> AdversarialOutput:
        """The output of one batch for the metrics, with the same latents for every batch of a size: it repeats."""
        images = self._images(batch)
        generated = self.generator(self._fixed_latents(len(images), "valid"))
        real, fake = self._judged(images), self._judged(generated)
        return AdversarialOutput(
            generator_loss_of(fake),
            discriminator_loss_of(real, fake),
            real,
            fake,
            weight=len(images),
        )

    def samples(self) -> dict[str, str | Tensor]:
        """`generated`: grid x grid images, of the same latents every time; nothing where they have not 1 or 3 channels."""
        images = self.generator(self._fixed_latents(self.grid**2, "samples")).float()
        if images.shape[1] not in (1, 3):
            return {}
        return {
            "generated": _in_a_square(
                ((images + 1) * 127.5).round().clamp(0, 255).to(torch.uint8), self.grid
            )
        }

    def _images(self, batch: Batch) -> Float[Tensor, "batch channels height width"]:
        return torch.addcmul(self.offset, batch.inputs, self.slope)

    def _judged(self, images: Tensor) -> Float[Tensor, " batch"]:
        logits: Tensor = self.discriminator(images)
        if logits.numel() != len(images):
            raise errors.DataError(
                f"the discriminator gives {list(logits.shape)} for {len(images)} images; should be a logit each"
            )
        return logits.reshape(-1).float()

    def _fixed_latents(self, number: int, purpose: str) -> Float[Tensor, "number latent"]:
        """Drawn on the CPU, so that they are the same on every device."""
        return torch.randn(number, self.latent, generator=randomness.stream(0, purpose)).to(
            self.offset.device
        )


def discriminator_loss(item: AdversarialOutput) -> tuple[Tensor, Weight]:
    """The discriminator's loss, for a Mean."""
    return item.discriminator_loss * item.weight, item.weight


def judged_real(item: AdversarialOutput) -> Tensor:
    """Whether the discriminator takes each real image for what it is."""
    return item.real > 0


def judged_generated(item: AdversarialOutput) -> Tensor:
    """Whether the discriminator takes each generated image for what it is."""
    return item.generated < 0


def generator_loss_of(generated: Float[Tensor, " batch"]) -> Float[Tensor, ""]:
    """-mean log s(D(G(z))), from D's logits of generated images."""
    return functional.binary_cross_entropy_with_logits(generated, torch.ones_like(generated))


def discriminator_loss_of(
    real: Float[Tensor, " batch"], generated: Float[Tensor, " batch"]
) -> Float[Tensor, ""]:
    """-mean log s(D(x)) - mean log(1 - s(D(G(z)))), from D's logits of real and of generated images."""
    missed = functional.binary_cross_entropy_with_logits(real, torch.ones_like(real))
    believed = functional.binary_cross_entropy_with_logits(generated, torch.zeros_like(generated))
    return missed + believed


@contextmanager
def _held(module: nn.Module) -> Iterator[None]:
    """Within it gradients pass through `module` and none is computed for its parameters."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)


def _gradients(loss: Tensor, model: nn.Module) -> dict[str, Tensor]:
    """By name; none if all that the loss depends on is frozen."""
    return dict(backward(loss, model)) if loss.requires_grad else {}


def _by_channel(numbers: Numbers) -> Float[Tensor, "channels 1 1"]:
    return torch.tensor(
        [numbers] if isinstance(numbers, float | int) else [*numbers], dtype=torch.float32
    )[:, None, None]


def _in_a_square(
    images: UInt8[Tensor, "number channels height width"], side: int
) -> UInt8[Tensor, "channels rows columns"]:
    """The images in rows, side by side."""
    _, channels, height, width = images.shape
    return (
        images.view(side, side, channels, height, width)
        .permute(2, 0, 3, 1, 4)
        .reshape(channels, side * height, side * width)
    )
