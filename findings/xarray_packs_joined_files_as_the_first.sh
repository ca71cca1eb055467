#!/usr/bin/env bash
# xarray 2026.9.0: a variable that was read from packed integers (scale_factor and add_offset of NetCDF, as reanalyses and
# satellites have, chosen anew for the range of each month's file) keeps that packing, and concat keeps the first file's.
# Joined files are right in memory; to_netcdf then packs all of them by the first file's scale, and values beyond its range wrap
# around in int16, without a warning. Assignment to elements, reindex with a fill_value and copy(data=...) do so too; arithmetic
# drops the packing. Call drop_encoding() before writing. Seen, a file of 0, 1, 3 and one of 0, 4, 8: both are read right and
# joined right; written and read again the second is 0, -2.55, 1.45.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q xarray==2026.9.0 scipy==1.17.1 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" -W error::RuntimeWarning - <<'PY'
import numpy
import scipy
import xarray

ENGINE = {"engine": "scipy"}


def written(path, rain, scale):
    packing = {"dtype": "int16", "scale_factor": scale, "add_offset": 0.0, "_FillValue": -32768}
    xarray.Dataset({"rain": ("time", rain)}).to_netcdf(path, encoding={"rain": packing}, **ENGINE)
    return xarray.open_dataset(path, **ENGINE)


def read_again(dataset):
    dataset.to_netcdf("joined.nc", **ENGINE)
    return xarray.open_dataset("joined.nc", **ENGINE).rain.values.round(2).tolist()


months = [written("1.nc", [0.0, 1.0, 3.0], 1e-4), written("2.nc", [0.0, 4.0, 8.0], 3e-4)]
joined = xarray.concat(months, "time")
assert numpy.allclose(joined.rain.values, [0, 1, 3, 0, 4, 8], atol=1e-3)
values = {"joined": read_again(joined), "drop_encoding": read_again(joined.drop_encoding())}
print(xarray.__version__, scipy.__version__, values)
assert numpy.allclose(values["drop_encoding"], [0, 1, 3, 0, 4, 8], atol=0.01)
assert values["joined"] == [0.0, 1.0, 3.0, 0.0, -2.55, 1.45], "joined files are written as they are"
PY
