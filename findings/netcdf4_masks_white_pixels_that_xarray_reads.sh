#!/usr/bin/env bash
# netCDF4 1.7.5.1: reading masks the highest number of an unsigned type (255, 65535) and -127 of int8 as "never written" in variables without a
# _FillValue; xarray 2026.9.0, also by its netcdf4 engine, reads them as they are. So pictures lose their white pixels and masks
# of classes the usual "ignore" class 255: mean() and sum() leave them out, filled(0) makes them black. A comment in netCDF4's source
# says that bytes are left alone, as NetCDF asks, but the condition beside it does so only where filling was turned off; h5netcdf's
# files are such, so the writer of a file decides. valid_range, valid_min and valid_max part the two as well: netCDF4 masks what is outside, as its page of
# set_auto_mask says, xarray leaves it, with a sentinel such as 9999. Call set_auto_mask(False), or give a _FillValue. Seen, 0, 2, 255 in uint8:
# netCDF4 0, 2, masked, mean 1; xarray and h5netcdf 0, 2, 255; 1, 9999 with valid_max 100: netCDF4 1, masked; xarray 1, 9999.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q netCDF4==1.7.5.1.post1 xarray==2026.9.0 h5netcdf==1.8.2 h5py==3.16.0 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import h5netcdf
import netCDF4
import numpy
import xarray

WHITE = numpy.array([0, 2, 255], "uint8")
xarray.Dataset({"v": ("x", WHITE)}).to_netcdf("xarray.nc", engine="netcdf4")
with h5netcdf.File("h5netcdf.nc", "w") as file:
    file.dimensions = {"x": 3}
    file.create_variable("v", ("x",), "uint8", data=WHITE)
rain = xarray.DataArray(numpy.array([1.0, 9999.0], "float32"), dims="x", attrs={"valid_max": numpy.float32(100)})
xarray.Dataset({"v": rain}).to_netcdf("range.nc", engine="netcdf4")


def values(path):
    with netCDF4.Dataset(path) as file:
        masked = file["v"][:]
    with xarray.open_dataset(path, engine="netcdf4") as file:
        return masked.tolist(), float(masked.mean()), file.v.values.tolist()


read = {path: values(path) for path in ("xarray.nc", "h5netcdf.nc", "range.nc")}
print(netCDF4.__version__, xarray.__version__, "netCDF4, its mean, xarray:", read)
assert read["xarray.nc"] == ([0, 2, None], 1.0, [0, 2, 255]), "white pixels are read"
assert read["h5netcdf.nc"][0] == read["h5netcdf.nc"][2] == [0, 2, 255]
assert read["range.nc"] == ([1.0, None], 1.0, [1.0, 9999.0]), "both go by valid_max alike"
PY
