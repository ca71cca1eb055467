#!/usr/bin/env bash
# segyio 1.9.14 changes the array that it is given to write: f.trace[i] = x, f.iline, f.trace = cube
# and segyio.tools.from_array turn each trace into IBM floats, their default format, in the caller's
# own memory, write it, and turn it back. IBM floats have 21 to 24 bits and the rest is cut off, so
# after saving a prediction, or a training cube, most numbers in memory are nearer to zero than
# before, by up to 1e-6 of each: a loss computed after saving is another than before it, a run that
# saves is another than one that does not, and a check of the file against the array finds no
# difference, since both were cut alike. A .npy opened with mmap_mode="r+" changes on the disk.
# Arrays that are read-only, of another type, or not contiguous are copied and stay. No report was
# seen; the code says so (puttr in segyio.cpp). NaN in a dead trace comes back as NaN from segyio
# alone: IBM floats have no NaN, and by the format's formula the file holds 5.1e38. Write x.copy(),
# or format=5 (IEEE), which keeps array and file to the bit.
# Seen, 1,000 normal numbers: 505 in memory changed, none away from zero, at most 8e-7 of the
# number; file and array equal; the .npy changed; format 5: nothing changed.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q segyio==1.9.14 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import importlib.metadata

import numpy
import segyio

before = numpy.random.default_rng(0).normal(size=(4, 5, 50)).astype("float32")
IBM, IEEE = segyio.SegySampleFormat.IBM_FLOAT_4_BYTE, segyio.SegySampleFormat.IEEE_FLOAT_4_BYTE


def written(cube, sample_format=IBM):
    segyio.tools.from_array("cube.sgy", cube, format=sample_format)
    return segyio.tools.cube("cube.sgy")


cube = before.copy()
file_is_array = numpy.array_equal(written(cube), cube)
changed = int((cube != before).sum())
larger = int((numpy.abs(cube) > numpy.abs(before)).sum())
relative = float((numpy.abs(cube - before) / numpy.abs(before)).max())
version = importlib.metadata.version("segyio")
print(version, "changed in memory:", changed, "away from zero:", larger, f"by at most {relative:.0e};", "file is array:", file_is_array)

one = before.copy()
with segyio.open("cube.sgy", "r+") as file:
    file.trace[0] = one[0, 0]
by_trace = int((one != before).sum())

numpy.save("cube.npy", before)
segyio.tools.from_array("cube.sgy", numpy.load("cube.npy", mmap_mode="r+"))
on_disk = int((numpy.load("cube.npy") != before).sum())

read_only, ieee = before.copy(), before.copy()
read_only.setflags(write=False)
written(read_only)
ieee_is_exact = numpy.array_equal(written(ieee, IEEE), before) and numpy.array_equal(ieee, before)

dead = numpy.full((1, 1, 4), numpy.nan, "float32")
by_segyio = written(dead)[0, 0, 0]
word = int.from_bytes(open("cube.sgy", "rb").read()[3840:3844], "big")
by_formula = (word & 0xFFFFFF) / 2**24 * 16.0 ** ((word >> 24 & 127) - 64)
print("f.trace:", by_trace, "in the .npy:", on_disk, "IEEE exact:", ieee_is_exact, "NaN:", by_segyio, f"{by_formula:.1e}")
assert changed > 500 and larger == 0 and 5e-7 < relative < 1e-6 and file_is_array, "the array is kept"
assert by_trace > 0 and on_disk == changed, "traces or mapped files are kept"
assert ieee_is_exact and numpy.array_equal(read_only, before), "IEEE or read-only arrays change"
assert numpy.isnan(by_segyio) and by_formula > 1e38
PY
