#!/usr/bin/env bash
# The same mask, assigned to a data set of bytes, is another one in HDF5 and in zarr, and neither says so: h5py clips to the
# range of the type, zarr wraps. A label -1 or -100 that means "ignore" becomes class 0 in HDF5, and 255 or 156 in zarr;
# instance 300 becomes 255, and 44. Reading as a smaller type (dataset.astype("uint8")) clips in HDF5 too. numpy.astype wraps.
# h5py 3.16.0, zarr 3.1.6, numpy 2.4.6. Seen, [-1, -100, 300, 2]: HDF5 [0, 0, 255, 2], zarr [255, 156, 44, 2].
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q h5py==3.16.0 zarr==3.1.6 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import h5py
import numpy
import zarr

mask = numpy.array([-1, -100, 300, 2])
with h5py.File("masks.h5", "w") as file:
    file.create_dataset("bytes", mask.shape, dtype="uint8")[:] = mask
    file["whole"] = mask
    in_hdf5, as_bytes = file["bytes"][:].tolist(), file["whole"].astype("uint8")[:].tolist()
array = zarr.create_array("masks.zarr", shape=mask.shape, dtype="uint8")
array[:] = mask
in_zarr = array[:].tolist()
print(h5py.__version__, zarr.__version__, "HDF5", in_hdf5, "read as bytes", as_bytes, "zarr", in_zarr)
assert in_hdf5 == as_bytes == [0, 0, 255, 2] and in_zarr == [255, 156, 44, 2], "out of range is stored otherwise"
PY
