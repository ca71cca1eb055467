#!/usr/bin/env bash
# geopandas 1.2.0 with pyogrio 0.13.0 (GDAL 3.12.4): to_file("x.fgb") sorts the rows along a curve through the map, for its spatial index, and read_file
# numbers them anew, so row 0 is another place than the row 0 that was written. GeoPackage, GeoJSON, shapefiles and GeoParquet keep the order.
# Embeddings, labels, a split's row numbers or predictions that lie beside the table as an array then belong to other places; the numbers of
# rows agree and a join by index succeeds.
# Keep a column of row numbers, or give SPATIAL_INDEX="NO". pyogrio's tests list the formats that reorder; geopandas' page of to_file does not.
# Seen, rows 0 to 5: 5, 0, 2, 3, 4, 1.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q geopandas==1.2.0 pyogrio==0.13.0 shapely==2.2.0 pandas==3.1.1 pyarrow==26.0.1 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" -W ignore - <<'PY'
import geopandas
import numpy
import pyogrio

places = numpy.random.default_rng(0).random((6, 2)) * 180 - 90
points = geopandas.points_from_xy(*places.T)
table = geopandas.GeoDataFrame({"row": range(6)}, geometry=points, crs=4326)


def read_back(path, **options):
    table.to_file(path, **options)
    read = geopandas.read_file(path)
    assert read.index.tolist() == list(range(6))
    return read.row.tolist()


read = {name: read_back(f"places.{name}") for name in ("gpkg", "geojson", "shp")}
table.to_parquet("places.parquet")
read["parquet"] = geopandas.read_parquet("places.parquet").row.tolist()
read["fgb, no index"] = read_back("unsorted.fgb", SPATIAL_INDEX="NO")
rows = read_back("places.fgb")
print(geopandas.__version__, pyogrio.__version__, pyogrio.__gdal_version_string__, "fgb", rows, read)
assert all(order == list(range(6)) for order in read.values())
assert rows == [5, 0, 2, 3, 4, 1], "rows keep their order"
PY
