#!/usr/bin/env bash
# h5py 3.16.0 (HDF5): a virtual data set, one array whose rows lie in other files, as detectors and large simulations write them, gives the fill value, which is 0
# unless another was chosen, for each file that is not there or not there yet: one that was renamed, not copied along, or still on its way. No error
# and no warning, the shape is whole, and class 0 or a black picture is trained on as if it were measured. A copy of the virtual file alone
# is all zeros. Documented by HDF5 as meant. Give VirtualLayout a fillvalue that no sample has (create_virtual_dataset(..., fillvalue=-1)),
# or look for each name in virtual_sources(). Seen, classes 5, 5, 6, 6 in two files: whole 5, 5, 6, 6; the second renamed 5, 5, 0, 0; with fillvalue -1 5, 5, -1, -1.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q h5py==3.16.0 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import os

import h5py
import numpy

layout = h5py.VirtualLayout(shape=(4,), dtype="int64")
for number in range(2):
    with h5py.File(f"part{number}.h5", "w") as file:
        file["classes"] = numpy.full(2, 5 + number)
    layout[2 * number : 2 * number + 2] = h5py.VirtualSource(f"part{number}.h5", "classes", (2,))
with h5py.File("whole.h5", "w", libver="latest") as file:
    file.create_virtual_dataset("classes", layout)
    file.create_virtual_dataset("marked", layout, fillvalue=-1)


def read(name="classes"):
    with h5py.File("whole.h5") as file:
        return file[name][:].tolist()


whole = read()
os.rename("part1.h5", "other.h5")
print(h5py.__version__, h5py.version.hdf5_version, whole, "renamed:", read(), "marked:", read("marked"))
assert whole == [5, 5, 6, 6]
assert read() == [5, 5, 0, 0], "a missing part is refused"
assert read("marked") == [5, 5, -1, -1]
PY
