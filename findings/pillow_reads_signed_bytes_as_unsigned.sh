#!/usr/bin/env bash
# Pillow 13.0.0 reads a TIFF of signed bytes (SampleFormat 2) as unsigned ones: -128 becomes 128, and -1 becomes 255.
# Mode and array say nothing of it; the tag 339 does. Refuse such files, or add 128 to the signed values.
# Seen: mode L, [[128, 255, 0, 127]].
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

tifffile.imwrite("a.tif", numpy.array([[-128, -1, 0, 127]], "i1"))
with Image.open("a.tif") as image:
    found = image.mode, numpy.asarray(image).tolist()
print(PIL.__version__, found)
assert found == ("L", [[128, 255, 0, 127]]), "signed bytes are read otherwise"
PY
