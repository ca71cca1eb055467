#!/usr/bin/env bash
# Pillow 13.0.0 reads an uncompressed TIFF of 16-bit colours in planes, the default of tifffile for [3, height, width], as
# noise: largest error of 8-bit values above 200. Interleaved, compressed (zlib) or with 8 bits it is right. No error, no warning.
# Seen: planes 16 bits: above 200; the other three at most 1.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q pillow==13.0.0 tifffile numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import numpy
import PIL
import tifffile
from PIL import Image

ramp = numpy.linspace(0, 1, 4096).reshape(64, 64)
colours = numpy.stack([ramp, ramp.T, 1 - ramp])
ways = {"planes": (colours, 16, {}), "zlib": (colours, 16, {"compression": "zlib"}),
        "8 bits": (colours, 8, {}), "interleaved": (colours.transpose(1, 2, 0), 16, {})}
worst = {}
for name, (values, bits, options) in ways.items():
    array = (values * (2**bits - 1)).round().astype(f"u{bits // 8}")
    tifffile.imwrite("a.tif", array, photometric="rgb", **options)
    with Image.open("a.tif") as image:
        pixels = numpy.asarray(image.convert("RGB")).astype(float)
    worst[name] = float(abs(pixels - colours.transpose(1, 2, 0) * 255).max())
print(PIL.__version__, worst)
assert worst.pop("planes") > 200, "16-bit planes are right now"
assert max(worst.values()) <= 1, "another layout is wrong"
PY
