"""Segmentation: pictures with masks, networks, the task with its loss, metrics, written masks."""

from andiron_lab.masks.image_masks import image_masks
from andiron_lab.masks.mask_scores import Dice, IoU
from andiron_lab.masks.on_fields import OnFields
from andiron_lab.masks.segmentation import PixelCrossEntropy, Segmentation, SegmentationOutput
from andiron_lab.masks.smp_networks import smp
from andiron_lab.masks.unet import UNet
from andiron_lab.masks.worst_masks import WorstMasks

__all__ = [
    "Dice", "IoU", "OnFields", "PixelCrossEntropy", "Segmentation", "SegmentationOutput", "UNet",
    "WorstMasks", "image_masks", "smp",
]  # fmt: skip
