"""Networks known by name: LeNet, ResNet, torchvision's, and transformers of images and text."""

from typing import Annotated

from pydantic import Field

from andiron.config.nodes.kinds import Count, Fraction, Positive, describes


@describes("andiron.models.LeNet")
class LeNet:
    pass


@describes("andiron.models.ResNet")
class ResNet:
    depth: Annotated[int, Field(ge=8)]  # and 6n + 2, which the network checks
    width: Count


@describes("andiron.models.torchvision")
class Torchvision:
    name: str
    weights: str | None


@describes("andiron.models.ViT")
class ViT:
    patch: Count
    dim: Count
    depth: Count
    heads: Count
    mlp_ratio: Positive
    dropout: Fraction


@describes("andiron.models.GPT")
class GPT:
    layers: Count
    heads: Count
    dim: Count
    dropout: Fraction
