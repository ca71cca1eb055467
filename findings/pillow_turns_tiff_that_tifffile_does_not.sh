#!/usr/bin/env bash
# Pillow 13.0.0 turns a TIFF by its orientation tag (274) while it is read, unlike a JPEG or PNG, whose EXIF orientation it leaves to ImageOps.exif_transpose;
# tifffile 2026.3.3, and so scikit-image 0.26.0 and imageio's default for .tif (2.38.1), give the rows as they are stored. Scanners, microscopes with a turned
# camera and raw converters write the tag. So a picture that torchvision's folders read by Pillow lies otherwise than its mask, boxes
# or keypoints that were made on tifffile's array, and where the shape stays (half a turn, mirrors, squares) nothing tells. imageio has both:
# imread(plugin="pillow") turns, the default does not. Pillow's choice since 6.2, by its issue 4053. Read both by one library.
# Seen, 1, 2, 3 over 4, 5, 6 with orientation 3: Pillow, and imageio by Pillow, 6, 5, 4 over 3, 2, 1; tifffile, scikit-image, imageio as stored; as PNG
# with the same tag Pillow gives 1, 2, 3 over 4, 5, 6.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q pillow==13.0.0 tifffile==2026.3.3 scikit-image==0.26.0 imageio==2.38.1 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import imageio
import imageio.v3
import numpy
import PIL.Image
import skimage.io
import tifffile

STORED = [[1, 2, 3], [4, 5, 6]]
READERS = {
    "Pillow": lambda: numpy.asarray(PIL.Image.open("scan.tif")),
    "imageio by Pillow": lambda: imageio.v3.imread("scan.tif", plugin="pillow"),
    "tifffile": lambda: tifffile.imread("scan.tif"),
    "scikit-image": lambda: skimage.io.imread("scan.tif"),
    "imageio": lambda: imageio.v3.imread("scan.tif"),
}
picture = numpy.array(STORED, "uint8")
tifffile.imwrite("scan.tif", picture, extratags=[(274, "H", 1, 3, True)])
read = {name: reader().tolist() for name, reader in READERS.items()}
exif = PIL.Image.Exif()
exif[274] = 3
PIL.Image.fromarray(picture).save("scan.png", exif=exif)
read["PNG by Pillow"] = numpy.asarray(PIL.Image.open("scan.png")).tolist()
print(PIL.__version__, tifffile.__version__, skimage.__version__, imageio.__version__, read)
assert read["Pillow"] == read["imageio by Pillow"] == [[6, 5, 4], [3, 2, 1]], "TIFF is not turned"
for name in ("tifffile", "scikit-image", "imageio", "PNG by Pillow"):
    assert read[name] == STORED, f"{name} turns"
PY
