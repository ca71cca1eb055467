#!/usr/bin/env bash
# torchvision 0.29.1, albumentations 2.0.8: a picture and its mask that are made smaller together do not stay together. "Nearest", which
# both take for masks, is the upper left of the pixels that become one, and the picture's filter their mean: from 512 to 128
# the mask lies a third of a new pixel (1.4 old ones) to the right of and below its picture, at greater factors almost half
# a pixel, in every sample, training and evaluation. Edges are learnt there, and scores against masks of full size show it.
# Pillow's NEAREST and OpenCV's INTER_NEAREST_EXACT (mask_interpolation in albumentations; NEAREST_EXACT for tensors in torchvision)
# take a pixel in the middle.
# Seen, mean shift to the right of 200 squares, 512 to 128 pixels: torchvision 0.35, albumentations 0.33, exact -0.13, Pillow -0.11.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; FINDINGS_PY=venv/bin/python
  venv/bin/pip install -q torch==2.14.1 torchvision==0.29.1 albumentations==2.0.8 pillow==13.0.0 numpy
fi
export NO_ALBUMENTATIONS_UPDATE=1
"$FINDINGS_PY" - <<'PY'
import albumentations
import cv2
import numpy
import torch
import torchvision
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import v2

BEFORE, AFTER = 512, 128


def centre(pixels):
    weights = numpy.asarray(pixels, dtype=float).sum(0)
    return float((numpy.arange(AFTER) * weights).sum() / weights.sum())


def by_torchvision(square):
    tensor = torch.from_numpy(square)[None]
    picture, mask = v2.Resize((AFTER, AFTER))(tv_tensors.Image(tensor), tv_tensors.Mask(tensor))
    return picture[0], mask[0]


def by_albumentations(square, **options):
    both = albumentations.Resize(AFTER, AFTER, **options)(image=square, mask=square)
    return both["image"], both["mask"]


def by_pillow(square):
    image = Image.fromarray(square)
    return [image.resize((AFTER, AFTER), filtered) for filtered in (Image.Resampling.BILINEAR, Image.Resampling.NEAREST)]


def exact(square):
    return by_albumentations(square, mask_interpolation=cv2.INTER_NEAREST_EXACT)


random = numpy.random.default_rng(0)
shifts = {way: [] for way in (by_torchvision, by_albumentations, exact, by_pillow)}
for _ in range(200):
    start, size = random.integers(60, 200), random.integers(80, 240)
    square = numpy.zeros((BEFORE, BEFORE), "u1")
    square[start : start + size, start : start + size] = 200
    for way, values in shifts.items():
        picture, mask = map(centre, way(square))
        values.append(mask - picture)
means = {way.__name__: round(float(numpy.mean(values)), 2) for way, values in shifts.items()}
print(torchvision.__version__, albumentations.__version__, means)
assert min(means["by_torchvision"], means["by_albumentations"]) > 0.25, "masks stay with their pictures"
assert max(abs(means["exact"]), abs(means["by_pillow"])) < 0.2
PY
