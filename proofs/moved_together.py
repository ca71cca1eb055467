"""Whether pictures and masks stay together under augmentations: agreement, classes, range."""

import torch
from torch.nn import functional
from torchvision.transforms import InterpolationMode, v2

from andiron import data
from andiron.data.augment.sample_random import Augmentation, Draws
from andiron_lab.masks import OnFields

BRIGHT, CLASS, SIDE = 160, 2, 24  # of the picture where the mask has the class, else 0 in both
VOID = {torch.uint8: 255, torch.int64: -100}
BILINEAR = InterpolationMode.BILINEAR
OWN = {
    "flip": data.Flip(), "upside down": data.Flip(horizontal=False), "shift": data.Shift(5),
    "crop": data.Crop(5), "mirrored crop": data.Crop(5, "mirror"), "rotate": data.Rotate(180.0),
    "cutout": data.Cutout(9),
}  # fmt: skip
FLIP = v2.RandomHorizontalFlip()
OF_TORCHVISION = {
    "flip": FLIP, "upside down": v2.RandomVerticalFlip(), "resized crop": v2.RandomResizedCrop(20),
    "crop": v2.RandomCrop(SIDE, padding=6), "reflected crop": v2.RandomCrop(
        SIDE, padding=6, padding_mode="reflect"),
    "rotation": v2.RandomRotation(180), "bilinear rotation": v2.RandomRotation(90, BILINEAR),
    "grey rotation": v2.RandomRotation(90, fill=127), "expanded": v2.Compose(
        [v2.RandomRotation(45, expand=True), v2.Resize((SIDE, SIDE))]),
    "affine": v2.RandomAffine(30, (0.2, 0.2), (0.7, 1.3), 20, BILINEAR),
    "perspective": v2.RandomPerspective(0.5, 1.0), "elastic": v2.ElasticTransform(80.0, 4.0),
    "zoom out": v2.Compose([v2.RandomZoomOut(), v2.Resize((SIDE, SIDE))]),
    "padded": v2.Pad(3, fill=9), "centre": v2.CenterCrop(30), "resized": v2.Resize((17, 31)),
    "choice": v2.RandomChoice([FLIP, v2.RandomRotation(90)]), "several in any order":
        v2.RandomOrder([FLIP, v2.RandomVerticalFlip()]), "some": v2.RandomApply([FLIP]),
    "jitter and flip": [v2.ColorJitter(0.2, 0.2), FLIP],
    "channels and flip": [v2.RandomChannelPermutation(), FLIP],
    "noise and flip": [v2.GaussianNoise(sigma=0.05), FLIP],
    "distorted and flip": [v2.RandomPhotometricDistort((0.9, 1.1), (0.9, 1.1)), FLIP],
    "equalized and flip": [v2.RandomEqualize(1.0), FLIP], "posterized": v2.RandomPosterize(4, 1.0),
    "grey and flip": [v2.RandomGrayscale(0.5), FLIP], "sharp": v2.RandomAdjustSharpness(1.1, 1.0),
    "floats and back": [v2.ToDtype(torch.float32, scale=True), v2.GaussianNoise(sigma=0.05), FLIP,
                        v2.ToDtype(torch.uint8, scale=True)],
}  # fmt: skip
AUGMENTATIONS = OWN | {
    f"torchvision: {name}": data.Torchvision(value) for name, value in OF_TORCHVISION.items()
}


def samples(number: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Pictures with an oblong of one brightness, and masks with one class there."""
    masks = torch.zeros(number, SIDE, SIDE, dtype=dtype)
    for index, mask in enumerate(masks):
        mask[2 + index % 7 : 12 + index % 5, 4 + index % 11 : 17 + index % 3] = CLASS
    pictures = (masks[:, None] * (BRIGHT // CLASS)).byte()
    return {"image": pictures.expand(-1, 3, -1, -1), "mask": masks}


def measured(
    augmentation: Augmentation, number: int, dtype: torch.dtype
) -> dict[str, float | bool]:
    """The share of pixels that agree, and the number of those with an invented class.

    Void pixels are left out, and those at an edge of the mask if the picture is interpolated.
    """
    batch = samples(number, dtype)
    moved = OnFields(["image", "mask"], augmentation)(
        batch, Draws(3, 0, torch.arange(number))
    )
    image, mask = moved["image"].float().mean(1), moved["mask"]
    is_void, is_class = mask == VOID[dtype], mask == CLASS
    levels = mask.double()[:, None]
    largest, smallest = (
        sign * functional.max_pool2d(sign * levels, 5, 1, 2)[:, 0] for sign in (1, -1)
    )
    is_between = ((image - BRIGHT / 2).abs() < BRIGHT * 0.3).any()
    is_counted = ~is_void & ((largest == smallest) | ~is_between)
    agrees = ((image > BRIGHT / 2) == is_class)[is_counted]
    return {
        "agreement": agrees.double().mean().item(),
        "invented": int((~(is_void | is_class | (mask == 0))).sum()),
        "counted": is_counted.double().mean().item(),
        "same types": (moved["image"].dtype, mask.dtype) == (torch.uint8, dtype),
    }


if __name__ == "__main__":
    for kind in VOID:
        for name, value in AUGMENTATIONS.items():
            print(f"{name:33} {kind!s:12} {measured(value, 500, kind)}")
