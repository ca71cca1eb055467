"""Adversarial training: a generator and a discriminator, each with its own loss and gradients.

>>> from andiron_lab.adversarial.dcgan import GAN
>>> network = GAN(input_shape=(1, 8, 8), latent=4, width=8)
>>> task = Adversarial(network, input_mean=0.5, input_std=0.5)
>>> task.samples()["generated"].shape  # a grid of 4 x 4 images
torch.Size([1, 32, 32])
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from andiron import errors, randomness
from andiron.data.dataset import Batch
from andiron.gradients import Detachable, Gradients, backward
from andiron.outputs import Scalar, Weight
from andiron.protocols import TrainOutput
from andiron.ranges import Count
from andiron.recording import keep_arguments
from andiron.tasks.regressor import Numbers, Scales
from andiron_lab.batch_pictures import tiled
from andiron_lab.scores.adapted.update_arguments import MetricUpdate

Images = Float[Tensor, "batch channels height width"]


@dataclass(frozen=True)
class AdversarialOutput(Detachable):
    """Both losses of a GAN, and the discriminator's logits of real and of generated images.

    The images themselves, in [-1, 1], are for metrics such as FID.
    """

    loss: Scalar  # the generator's
    discriminator_loss: Scalar
    real: Float[Tensor, " batch"]
    generated: Float[Tensor, " batch"]
    weight: Weight
    real_images: Images | None = None
    generated_images: Images | None = None

    def metric_updates(self, metric: object, names: Sequence[str]) -> list[MetricUpdate]:
        """The real and the generated images, or those alone, for a metric of torchmetrics.

        Raises: MismatchError for a metric that takes anything else.
        """
        lack = f"takes {', '.join(names)}, and there are no pairs in"
        if self.real_images is None or self.generated_images is None:
            lack = "takes images, which are not in"
        elif "real" in names:
            real, generated = (
                _pixels(metric, images) for images in (self.real_images, self.generated_images)
            )
            return [((real,), {"real": True}), ((generated,), {"real": False})]
        elif len(names) == 1:
            return [((_pixels(metric, self.generated_images),), {})]
        raise errors.MismatchError(f"{type(metric).__name__} {lack} the AdversarialOutput")


@keep_arguments
class Adversarial(nn.Module):
    """`network.generator`, from normal latents to images in [-1, 1], and `network.discriminator`.

    With images x, latents z, s = sigmoid and D(x) the logit that x is real:
    discriminator's loss = -mean log s(D(x)) - mean log(1 - s(D(G(z)))),
    generator's loss = -mean log s(D(G(z))), which does not saturate where D is sure.
    Both are taken at the weights before the update: the two networks are updated at once.
    A pixel in [0, 1] is input_mean + input_std * input, one number or one for each channel; the
    images are rescaled by them to the generator's range. Parameters are named generator.* and
    discriminator.*, so that each network can have its own optimizer.
    Raises: ValueError if the network lacks a part, or input_mean or input_std is missing.
    Source: Goodfellow et al. 2014, arXiv:1406.2661, section 3.
    """

    has_own_losses = True  # so a configured loss would not be used
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
        parts = ("generator", "discriminator", "latent")
        missing = [name for name in parts if not hasattr(network, name)]
        if missing:
            raise ValueError(
                f"{type(network).__name__} has no {', '.join(missing)}; choose a network that has, "
                "such as GAN"
            )
        if input_mean is None or input_std is None:
            raise ValueError(
                "input_mean and input_std: the data does not give them; give both (0.5 for images "
                "in [-1, 1])"
            )
        self.generator, self.discriminator, self.latent = (getattr(network, part) for part in parts)
        self.grid = grid
        mean, std = (  # [channels, 1, 1]
            torch.as_tensor(numbers, dtype=torch.float32).reshape(-1, 1, 1)
            for numbers in (input_mean, input_std)
        )
        self.register_buffer("slope", 2 * std, persistent=False)
        self.register_buffer("offset", 2 * mean - 1, persistent=False)

    def forward(self, latents: Float[Tensor, "batch latent"]) -> Images:
        return self.generator(latents)

    def train_step(self, batch: Batch) -> TrainOutput:
        """The gradients of both networks for one batch, and its output; targets are not used."""
        latents = torch.randn(len(batch.inputs), self.latent, device=batch.inputs.device)
        return self.train_on(self._images(batch), latents)

    def train_on(self, images: Images, latents: Float[Tensor, "batch latent"]) -> TrainOutput:
        """The gradients of both networks with these latents.

        The discriminator gets the generated images twice: batch norm counts them twice.
        """
        generated = self.generator(latents)
        with _frozen(self.discriminator):  # the generator's loss trains only the generator
            loss = _surprise(self._logits(generated), is_real=1)
            gradients = _gradients(loss, self)
        item = self._output(images, generated.detach(), loss)
        gradients |= _gradients(item.discriminator_loss, self)
        joint_loss = (loss + item.discriminator_loss).detach()
        return TrainOutput(Gradients(gradients, self, joint_loss), item.detached(), item.weight)

    def valid_step(self, batch: Batch) -> AdversarialOutput:
        """The output of one batch for the metrics; the same latents for every batch of one size."""
        images = self._images(batch)
        return self._output(images, self.generator(self._fixed_latents(len(images), "valid")))

    def generator_inputs(self, number: int) -> Float[Tensor, "number latent"]:
        """Latents to try an exported generator with."""
        return self._fixed_latents(number, "export")

    def samples(self) -> dict[str, str | Tensor]:
        """`generated`: grid x grid images of fixed latents; empty unless 1 or 3 channels."""
        images = self.generator(self._fixed_latents(self.grid**2, "samples")).float()
        if images.shape[1] not in (1, 3):
            return {}
        pixels = ((images + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)
        return {"generated": tiled(pixels, self.grid)}

    def _output(
        self, images: Tensor, generated: Tensor, loss: Tensor | None = None
    ) -> AdversarialOutput:
        """The discriminator's answers and loss, and the generator's loss unless given."""
        real, fake = self._logits(images), self._logits(generated)
        loss = _surprise(fake, is_real=1) if loss is None else loss
        discriminator_loss = _surprise(real, is_real=1) + _surprise(fake, is_real=0)
        weight = len(images)
        return AdversarialOutput(loss, discriminator_loss, real, fake, weight, images, generated)

    def _images(self, batch: Batch) -> Images:
        return torch.addcmul(self.offset, batch.inputs, self.slope)

    def _logits(self, images: Tensor) -> Float[Tensor, " batch"]:
        logits: Tensor = self.discriminator(images)
        if logits.numel() != len(images):
            raise errors.DataError(
                f"the discriminator gives {list(logits.shape)} for {len(images)} images; should be "
                "a logit each"
            )
        return logits.reshape(-1).float()

    def _fixed_latents(self, number: int, purpose: str) -> Float[Tensor, "number latent"]:
        """Latents drawn on the CPU, the same on every device."""
        latents = torch.randn(number, self.latent, generator=randomness.stream(0, purpose))
        return latents.to(self.offset.device)


def discriminator_loss(item: AdversarialOutput) -> tuple[Tensor, Weight]:
    """The discriminator's loss, for a Mean."""
    return item.discriminator_loss * item.weight, item.weight


def judged_real(item: AdversarialOutput) -> Tensor:
    """Whether the discriminator classifies each real image as real."""
    return item.real > 0


def judged_generated(item: AdversarialOutput) -> Tensor:
    """Whether the discriminator classifies each generated image as generated."""
    return item.generated < 0


def _surprise(logits: Float[Tensor, " batch"], *, is_real: float) -> Scalar:
    """-mean log s(D) of images labelled real (1), or -mean log(1 - s(D)) of others (0)."""
    truths = torch.full_like(logits, is_real)
    return functional.binary_cross_entropy_with_logits(logits, truths)


@contextmanager
def _frozen(module: nn.Module) -> Iterator[None]:
    """A context in which gradients pass through `module` but not to its parameters."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)


def _gradients(loss: Tensor, model: nn.Module) -> dict[str, Tensor]:
    """The gradients by name; empty if every parameter that the loss depends on is frozen."""
    return dict(backward(loss, model)) if loss.requires_grad else {}


def _pixels(metric: object, images: Images) -> Tensor:
    """Images in [-1, 1] as bytes, or in [0, 1] for a metric that normalises; grey ones as RGB.

    A user's feature network gets the channels unchanged.
    """
    unit = ((images.float() + 1) / 2).clamp(0, 1)
    if images.shape[1] == 1 and not getattr(metric, "used_custom_model", True):
        unit = unit.expand(-1, 3, -1, -1)
    return unit if getattr(metric, "normalize", True) else (unit * 255).round().to(torch.uint8)
