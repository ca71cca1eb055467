#!/usr/bin/env bash
# torchvision 0.29.1: decode_image and decode_png, in their default mode, give the classes of a mask with a palette only if the file
# has 8 bits a pixel. With 16 or fewer colours, which Pillow and PNG optimisers store in 1, 2 or 4 bits a pixel, the pixels are
# not unpacked: they are wrong in the whole row, without an error. A mask of few classes is such a file. In mode RGB the colours
# are right, and Pillow gives the classes of all.
# Seen, 8 x 8 pixels, classes 0 to n - 1 in turn, the share of right pixels: n = 2: 0.125; 4 and 16: 0.0; 17: 1.0; Pillow 1.0 for all.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 torchvision==0.29.1 pillow==13.0.0 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import numpy
import torchvision
from PIL import Image
from torchvision.io import ImageReadMode, decode_image

shares = {}
for classes in (2, 4, 16, 17):
    mask = numpy.resize(numpy.arange(classes), (8, 8)).astype("u1")
    colours = numpy.stack([numpy.arange(classes) * step % 256 for step in (3, 7, 11)], axis=1).astype("u1")
    image = Image.new("P", (8, 8))
    image.putdata(mask.ravel().tolist())
    image.putpalette(colours.ravel().tolist())
    image.save("mask.png")
    with Image.open("mask.png") as stored:
        assert (numpy.asarray(stored) == mask).all()
    painted = decode_image("mask.png", ImageReadMode.RGB).permute(1, 2, 0).numpy()
    assert (painted == colours[mask]).all()
    shares[classes] = float((decode_image("mask.png")[0].numpy() == mask).mean())
print(torchvision.__version__, shares)
assert shares.pop(17) == 1.0 and max(shares.values()) < 0.5, "palettes of few colours are read otherwise"
PY
