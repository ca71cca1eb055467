#!/usr/bin/env bash
# OpenCV 5.0.0.93: imread, with IMREAD_UNCHANGED too, gives an 8-bit TIFF of four bands as the first three times the fourth over 255, if the fourth is
# marked as alpha that is not yet multiplied in; Pillow 13.0.0 and tifffile 2026.3.3 give what is stored. GDAL, so rasterio 1.4.4, marks each file of four bytes so
# without being asked: red, green, blue and near infrared of an aerial photograph or a drone. So bright plants keep their colours, water and
# roads turn black, and a network trained behind one reader is used behind another. OpenCV hands 8-bit TIFF to libtiff's reader for
# display, which multiplies. The same four channels as PNG, or in 16 bits with that mark, are not multiplied. No report was seen.
# Write with alpha="unspecified", or read by tifffile. Seen, 200, 100, 50 with fourth bands 255, 128, 0: OpenCV 200, 100, 50 / 100, 50, 25 /
# 0, 0, 0; Pillow and tifffile 200, 100, 50 three times; PNG, 16 bits and the unmarked file by OpenCV as stored.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q opencv-python-headless==5.0.0.93 rasterio==1.4.4 tifffile==2026.3.3 pillow==13.0.0 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" -W ignore - <<'PY'
import cv2
import numpy
import PIL.Image
import rasterio
import tifffile

BANDS = numpy.array([[200] * 3, [100] * 3, [50] * 3, [255, 128, 0]], "uint8")[:, None]  # bands, rows, columns


def write(path, bands, **options):
    profile = {"driver": "GTiff", "count": 4, "height": 1, "width": 3, "dtype": bands.dtype}
    with rasterio.open(path, "w", **profile, **options) as file:
        file.write(bands)
        return [band.name for band in file.colorinterp]


def by_opencv(path):
    return cv2.imread(path, cv2.IMREAD_UNCHANGED)[0, :, 2::-1].tolist()


marked = write("bands.tif", BANDS)
write("unmarked.tif", BANDS, alpha="unspecified")
write("wide.tif", BANDS.astype("uint16"), photometric="rgb", alpha="yes")
cv2.imwrite("bands.png", BANDS.transpose(1, 2, 0)[..., [2, 1, 0, 3]])
colours = {
    "OpenCV": by_opencv("bands.tif"),
    "Pillow": numpy.asarray(PIL.Image.open("bands.tif"))[0, :, :3].tolist(),
    "tifffile": tifffile.imread("bands.tif").reshape(1, 3, 4)[0, :, :3].tolist(),
    "OpenCV, 16 bits": by_opencv("wide.tif"),
    "OpenCV, PNG": by_opencv("bands.png"),
    "OpenCV, unmarked": by_opencv("unmarked.tif"),
}
print(cv2.__version__, rasterio.__version__, marked, colours)
stored = [[200, 100, 50]] * 3
assert marked == ["red", "green", "blue", "alpha"], "rasterio marks bands otherwise"
assert colours.pop("OpenCV") == [[200, 100, 50], [100, 50, 25], [0, 0, 0]], "bands are read as stored"
assert all(values == stored for values in colours.values())
PY
