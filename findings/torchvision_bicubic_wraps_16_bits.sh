#!/usr/bin/env bash
# torchvision 0.29.1: transforms.v2 resizes a picture of uint16, as decode_image gives for a PNG of 16 bits, in float and casts
# back. Bicubic and Lanczos go beyond black and white at an edge; for uint8 that is clamped, for uint16 it wraps: next to an
# edge black becomes nearly white, and white nearly black. int16 and int32 wrap or overflow too. Bilinear does not.
# Seen, an edge from 0 to the largest value, 8 to 16 pixels: uint8 rises from 0 to 255; uint16 has 64001, 60929, then 4606, 1534.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 torchvision==0.29.1 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import torch
import torchvision
from torchvision.transforms.v2 import InterpolationMode, functional


def resized(dtype, interpolation):
    picture = torch.zeros(1, 8, 8, dtype=torch.int64)
    picture[..., 4:] = torch.iinfo(dtype).max
    return functional.resize(picture.to(dtype), [16, 16], interpolation=interpolation)[0, 0].tolist()


def rises(row):
    return row == sorted(row)


bicubic = {dtype: resized(dtype, InterpolationMode.BICUBIC) for dtype in (torch.uint8, torch.uint16)}
for dtype, row in bicubic.items():
    print(torchvision.__version__, dtype, row)
assert rises(bicubic[torch.uint8]) and rises(resized(torch.uint16, InterpolationMode.BILINEAR))
assert max(bicubic[torch.uint16][:7]) > 60_000 and min(bicubic[torch.uint16][9:]) < 5_000, "uint16 is clamped"
PY
