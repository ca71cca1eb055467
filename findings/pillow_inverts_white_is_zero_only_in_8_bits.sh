#!/usr/bin/env bash
# Pillow 13.0.0 inverts a TIFF whose tag says "white is zero" if it has 8 bits, and leaves it as it is with 16: a negative.
# The array that tifffile writes with photometric="miniswhite" is the stored one in both.
# Seen: 8 bits: black is 0; 16 bits: black is 65535.
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

stored = {8: numpy.array([[255, 0]], "u1"), 16: numpy.array([[65535, 0]], "u2")}  # black, white
found = {}
for bits, array in stored.items():
    tifffile.imwrite("a.tif", array, photometric="miniswhite")
    with Image.open("a.tif") as image:
        found[bits] = numpy.asarray(image).tolist()
print(PIL.__version__, found)
assert found == {8: [[0, 255]], 16: [[65535, 0]]}, "white is zero is read otherwise"
PY
