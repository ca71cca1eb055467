#!/usr/bin/env bash
# mosaicml-streaming 0.13.0: the encoding "ndarray" stores the name of the type without its byte order. An array with the
# high byte first, as FITS, NIfTI, IDX, HDF5 and many instruments give, is read with its bytes reversed: 1.0 becomes 4.6e-41, 1
# becomes 256. The encodings of numbers ("int16", "float16") wrap and overflow NumPy scalars: int16 of 70,000 is 4464.
# array.astype(array.dtype.newbyteorder("=")) before writing keeps it. Seen: [4.6e-41], [256], 4464.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q mosaicml-streaming==0.13.0 torch==2.14.1 torchvision==0.29.1; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
from importlib.metadata import version

import numpy
from streaming.base.format.mds.encodings import mds_decode, mds_encode


def stored(encoding, value):
    return mds_decode(encoding, mds_encode(encoding, value))


floats, whole = stored("ndarray", numpy.array([1.0], ">f4")), stored("ndarray", numpy.array([1], ">i2"))
native = stored("ndarray", numpy.array([1.0], ">f4").astype("=f4"))
wrapped = int(stored("int16", numpy.int64(70_000)))
print(version("mosaicml-streaming"), floats.tolist(), whole.tolist(), native.tolist(), wrapped)
assert 0 < floats[0] < 1e-40 and whole[0] == 256 and native[0] == 1 and wrapped == 4464, "byte order is kept"
PY
