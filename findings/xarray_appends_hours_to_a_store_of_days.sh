#!/usr/bin/env bash
# xarray 2026.9.0 with zarr 3.1.6: to_zarr(append_dim="time") of times that the store's unit cannot hold as whole numbers (daily data first, so "days since", then
# hourly data) writes them in hours and leaves the unit of the store at days. 6 o'clock of the third day becomes a day in February. A warning says that the
# times are serialized with the other unit, which sounds as if they were; they are read with the first. Samples are then dated weeks to years ahead,
# a split by date puts them into the wrong part or nowhere, and hours of the day, months and holidays that a network gets are wrong.
# Give the first file's time an encoding of seconds or finer. Reported in 2021 (issue 5969, closed) and 2025 (10639, open).
# Seen, days 2024-01-01 and 02, then 2024-01-03 06:00 and 12:00: read 2024-01-01, 01-02, 02-24, 03-01; with units of seconds as they were.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q xarray==2026.9.0 zarr==3.1.6 pandas==3.1.1 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import warnings

import pandas
import xarray
import zarr

FIRST, LATER = ["2024-01-01", "2024-01-02"], ["2024-01-03 06:00", "2024-01-03 12:00"]


def dataset(times):
    return xarray.Dataset({"rain": ("time", [1.0, 2.0])}, coords={"time": pandas.to_datetime(times)})


def read_back(path, zarr_format, **encoding):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        dataset(FIRST).to_zarr(path, zarr_format=zarr_format, encoding={"time": encoding} if encoding else None)
        dataset(LATER).to_zarr(path, append_dim="time")
        with xarray.open_zarr(path, chunks=None) as read:
            times = [str(time)[5:16] for time in read.time.values]
    return times, any("Serializing with units 'hours since" in str(warning.message) for warning in heard)


read = {zarr_format: read_back(f"{zarr_format}.zarr", zarr_format) for zarr_format in (2, 3)}
whole = read_back("seconds.zarr", 2, units="seconds since 2000-01-01", dtype="int64")
print(xarray.__version__, zarr.__version__, "times, warned:", read, "seconds:", whole)
assert whole == (["01-01T00:00", "01-02T00:00", "01-03T06:00", "01-03T12:00"], False)
wrong = ["01-01T00:00", "01-02T00:00", "02-24T00:00", "03-01T00:00"], True
assert read == {2: wrong, 3: wrong}, "later times are read as they are"
PY
