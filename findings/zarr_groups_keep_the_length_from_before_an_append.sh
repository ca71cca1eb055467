#!/usr/bin/env bash
# zarr 3.1.6 and xarray 2026.9.0: a store whose metadata were consolidated, as xarray's to_zarr does by default, has each array's shape twice. append and resize
# of zarr write the array's own and leave the copy, and open_group and xarray's open_zarr read the copy, open_array the array's own. So after an append the
# same store has two lengths, by how it is opened; readers of groups never see the new samples, in silence, and a resumed run that goes by
# the length stays at the old ones. A resize to fewer rows turns it round: the group gives fill values, zeros of integers, for rows that are gone.
# Call zarr.consolidate_metadata after each change. xarray's own to_zarr(append_dim=...) does. Documented as something to look after.
# Seen, 4 rows of ones, 4 appended: open_array 8, open_group and open_zarr 4, after consolidation 8; cut to 2: the group's rows 1, 1, 0, 0.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q zarr==3.1.6 xarray==2026.9.0 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" -W ignore - <<'PY'
import numpy
import xarray
import zarr

xarray.Dataset({"x": ("row", numpy.ones(4, "int16"))}).to_zarr(
    "store.zarr", zarr_format=2, encoding={"x": {"chunks": (2,)}}
)


def lengths():
    with xarray.open_zarr("store.zarr", chunks=None) as dataset:
        return zarr.open_array("store.zarr/x").size, zarr.open_group("store.zarr")["x"].size, dataset.x.size


before = lengths()
zarr.open_array("store.zarr/x", mode="a").append(numpy.ones(4, "int16"))
appended = lengths()
zarr.consolidate_metadata("store.zarr")
consolidated = lengths()
zarr.open_array("store.zarr/x", mode="a").resize(2)
rest = zarr.open_group("store.zarr")["x"][:4].tolist()
print(zarr.__version__, xarray.__version__, before, appended, consolidated, "cut:", rest)
assert before == (4, 4, 4) and consolidated == (8, 8, 8)
assert appended == (8, 4, 4), "a group has the array's own shape"
assert rest == [1, 1, 0, 0], "rows that are gone are refused"
PY
