#!/usr/bin/env bash
# pyarrow 26.0.1: FixedShapeTensorArray.from_numpy_ndarray of pictures that were turned from channels first to channels last, or back, by
# transpose (a view; permute of torch gives the same) writes the inverse of the permutation that it should. to_numpy_ndarray
# then gives the shape [2, 8, 3, 8] for [2, 8, 8, 3], with other pixels at each place, without an error; for three equal sizes the
# shape is right and the pixels are scrambled; for some sizes it raises. A single tensor (array[1].to_numpy()) is wrong for
# a swap of two axes too, which the whole array survives. numpy.ascontiguousarray before it avoids all.
# Seen, channels last: [2, 8, 3, 8] for 8 x 8, [4, 3, 3, 3] with other pixels for 3 x 3; rows and columns swapped: the whole equal
# and a single one not; contiguous copies equal.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q pyarrow==26.0.1 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import numpy
import pyarrow
import pyarrow.parquet


def of_file(pictures):
    tensors = pyarrow.FixedShapeTensorArray.from_numpy_ndarray(pictures)
    pyarrow.parquet.write_table(pyarrow.table({"pictures": tensors}), "t.parquet")
    return pyarrow.parquet.read_table("t.parquet")["pictures"].chunk(0)


cases = {
    "channels last": ((2, 3, 8, 8), (0, 2, 3, 1)),
    "equal sizes": ((4, 3, 3, 3), (0, 2, 3, 1)),
    "two swapped": ((2, 3, 8, 8), (0, 2, 1, 3)),
}
results = {}
for name, (shape, order) in cases.items():
    view = numpy.arange(numpy.prod(shape), dtype=numpy.int32).reshape(shape).transpose(order)
    for kind, pictures in (("view", view), ("copy", numpy.ascontiguousarray(view))):
        read = of_file(pictures)
        whole = read.to_numpy_ndarray()
        is_equal = numpy.array_equal(whole, pictures)
        results[name, kind] = (whole.shape, is_equal, numpy.array_equal(read[1].to_numpy(), pictures[1]))
print(pyarrow.__version__, numpy.__version__, results)
assert results == {
    ("channels last", "view"): ((2, 8, 3, 8), False, False),
    ("channels last", "copy"): ((2, 8, 8, 3), True, True),
    ("equal sizes", "view"): ((4, 3, 3, 3), False, False),
    ("equal sizes", "copy"): ((4, 3, 3, 3), True, True),
    ("two swapped", "view"): ((2, 8, 3, 8), True, False),
    ("two swapped", "copy"): ((2, 8, 3, 8), True, True),
}, "views come back as they were"
PY
