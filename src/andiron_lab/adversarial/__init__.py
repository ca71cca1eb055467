"""A generator of images against a discriminator: the task, its item, a network, scores."""

from andiron_lab.adversarial.adversarial_task import (
    Adversarial,
    AdversarialOutput,
    discriminator_loss,
    judged_generated,
    judged_real,
)
from andiron_lab.adversarial.dcgan import GAN

__all__ = [
    "GAN", "Adversarial", "AdversarialOutput", "discriminator_loss", "judged_generated",
    "judged_real",
]  # fmt: skip
