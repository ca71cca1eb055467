#!/usr/bin/env bash
# OpenCV 5.0.0.93: imread with IMREAD_UNCHANGED gives a 16-bit TIFF of three or four bands that are no colours (photometric "minisblack", as GDAL and
# rasterio 1.4.4 write the scenes of satellites) as one channel: 0.30 of the first band, 0.59 of the second and 0.11 of the third; the fourth is
# lost. The same bands in 32 bits come out as they are, in 8 bits as colours, and tifffile 2026.3.3 gives what is stored. The mixture has
# the size and range of a band, so a network with one input channel trains on it.
# IMREAD_UNCHANGED is documented to give the picture as it is. No report was seen.
# Seen, bands 1000, 2000, 3000, 4000: uint16 one channel of 1815, float32 1000, 2000, 3000, 4000; three bands of uint16: 1815 too.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q opencv-python-headless==5.0.0.93 rasterio==1.4.4 tifffile==2026.3.3 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" -W ignore - <<'PY'
import cv2
import numpy
import rasterio
import tifffile

LEVELS = numpy.array([1000, 2000, 3000, 4000])[:, None, None]
scene = LEVELS + numpy.arange(24).reshape(1, 4, 6)  # bands, rows, columns


def by_opencv(bands, dtype):
    stored = scene[:bands].astype(dtype)
    profile = {"driver": "GTiff", "count": bands, "height": 4, "width": 6, "dtype": dtype}
    with rasterio.open("scene.tif", "w", **profile, interleave="pixel") as file:
        file.write(stored)
    assert (tifffile.imread("scene.tif") == stored.transpose(1, 2, 0)).all()
    read = cv2.imread("scene.tif", cv2.IMREAD_UNCHANGED)
    assert read.dtype == dtype
    return read if read.ndim == 2 else read[..., [2, 1, 0, 3][:bands]].transpose(2, 0, 1)


read = {(bands, dtype): by_opencv(bands, dtype) for bands in (3, 4) for dtype in ("uint16", "float32")}
first = {case: (array.shape, array[..., 0, 0].tolist()) for case, array in read.items()}
print(cv2.__version__, rasterio.__version__, first)
grey = 0.299 * scene[0] + 0.587 * scene[1] + 0.114 * scene[2]
for bands in (3, 4):
    mixed, right = read[bands, "uint16"], read[bands, "float32"]
    assert mixed.shape == (4, 6) and abs(mixed - grey).max() <= 1, "bands stay apart"
    assert (right == scene[:bands]).all()
PY
