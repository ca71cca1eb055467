#!/usr/bin/env bash
# safetensors 0.8.0 writes the memory of a NumPy array as it lies, under the shape of the C order: an array in Fortran order, a
# transposed or a strided one comes back as other numbers, without an error (safetensors/safetensors#825; the torch part
# refuses what is not contiguous). Such arrays come from numpy.load, scipy.io.loadmat, numpy.linalg and scikit-learn.
# array.copy() is in C order; numpy.asarray is not.
# Seen, read as written: Fortran False, transposed False, every second column False, C order True, copy True.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q safetensors==0.8.0 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import numpy
import safetensors
from safetensors.numpy import load, save

values = numpy.arange(12.0).reshape(3, 4)
arrays = {
    "Fortran": numpy.asfortranarray(values), "transposed": values.T, "every second column": values[:, ::2],
    "C order": values, "copy": values.T.copy(),
}
alike = {name: bool(numpy.array_equal(load(save({"a": array}))["a"], array)) for name, array in arrays.items()}
print(safetensors.__version__, alike)
assert [*alike.values()] == [False, False, False, True, True], "other arrays are written as they are read"
PY
