"""Networks of timm and transformers by name, and a small vision transformer."""

from andiron_lab.networks.libraries import hf, timm
from andiron_lab.networks.vit import ViT

__all__ = ["ViT", "hf", "timm"]
