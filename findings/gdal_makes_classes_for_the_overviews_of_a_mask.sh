#!/usr/bin/env bash
# rasterio 1.4.4 (GDAL 3.10.3): a map of classes that is written as a cloud-optimised GeoTIFF (driver "COG") gets overviews by cubic interpolation
# if it has no palette, and read(out_shape=...), as loaders of satellite pictures read at a lower resolution, takes its pixels from them: its
# default "nearest" chooses among pixels that are already mixed. Class numbers come out that no pixel of the map has, at every border. The
# same map as an ordinary GeoTIFF has no overviews and is read right, and so is the COG at its full size, so a look at either shows nothing.
# Write masks with overview_resampling="nearest" (or "mode"). GDAL documents cubic as the default of the driver.
# Seen, 1,088 x 1,088 of the classes 1, 7 and 42, at half the size: GeoTIFF 1, 7, 42; COG 34 classes, more than a quarter of the pixels none of the three.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q rasterio==1.4.4 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import numpy
import rasterio

CLASSES = [1, 7, 42]
blocks = numpy.random.default_rng(0).choice(CLASSES, size=(64, 64))
labels = numpy.kron(blocks, numpy.ones((17, 17))).astype("uint8")
PROFILE = {
    "height": len(labels), "width": len(labels), "count": 1, "dtype": "uint8", "crs": "EPSG:32633",
    "transform": rasterio.transform.from_origin(500_000, 5_000_000, 10, 10),
}


def at_half_size(**options):
    with rasterio.open("labels.tif", "w", **PROFILE, **options) as file:
        file.write(labels, 1)
    with rasterio.open("labels.tif") as file:
        assert (file.read(1) == labels).all()
        half = file.read(1, out_shape=(len(labels) // 2, len(labels) // 2))
    return len(numpy.unique(half)), round(float((~numpy.isin(half, CLASSES)).mean()), 3)


classes = {
    "GTiff": at_half_size(driver="GTiff"),
    "COG": at_half_size(driver="COG"),
    "COG by nearest": at_half_size(driver="COG", overview_resampling="nearest"),
}
print(rasterio.__version__, rasterio.__gdal_version__, "classes, share of invented:", classes)
assert classes["GTiff"] == classes["COG by nearest"] == (3, 0.0)
assert classes["COG"][0] > 20 and classes["COG"][1] > 0.2, "overviews of masks have their classes"
PY
