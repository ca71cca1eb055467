#!/usr/bin/env bash
# webdataset 1.0.2: TarWriter stores an array of uint16 as a PNG of 16 bits, and decode in any form ("pil", "rgb8", "torchrgb")
# reads it as 8 bits by clipping: all but the darkest 256 of 65,536 levels are white. Depth maps and X-rays become white
# pictures, without a word. Without decode the bytes are left, and Pillow reads them as 16 bits.
# Seen: [0, 255, 256, 40000, 65535] becomes [0, 255, 255, 255, 255]; Pillow alone [0, 255, 256, 40000, 65535].
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q webdataset==1.0.2 pillow==13.0.0 numpy==2.4.6 torch==2.14.1; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import io

import numpy
import webdataset
from PIL import Image

values = numpy.array([[0, 255, 256, 40000, 65535]], "uint16")
with webdataset.TarWriter("depth.tar") as writer:
    writer.write({"__key__": "a", "png": values})
found = {}
for form in ("rgb8", "pil", "torchrgb8"):
    (sample,) = webdataset.WebDataset("depth.tar", shardshuffle=False).decode(form)
    picture = numpy.asarray(sample["png"])
    found[form] = (picture[0] if form == "torchrgb8" else picture[..., 0]).flatten().tolist()
(sample,) = webdataset.WebDataset("depth.tar", shardshuffle=False)
alone = numpy.asarray(Image.open(io.BytesIO(sample["png"]))).flatten().tolist()
print(webdataset.__version__, found, "Pillow", alone)
assert alone == values.flatten().tolist() and all(row == [0, 255, 255, 255, 255] for row in found.values()), "16 bits are kept"
PY
