#!/usr/bin/env bash
# scikit-image 0.26.0: imread of a TIFF whose third axis from the end has the length 3 or 4, and whose last has not, moves it to the end, as if it were the
# colours: a stack of 3 or 4 slices or moments comes back as (rows, columns, slices), stacks of any other length as (slices, rows, columns), and so does
# tifffile 2026.3.3 for all. The file's own axes and photometric tag are not asked. In a folder of stacks cropped to the object the short ones are
# turned; code that takes volume[0] for the first slice gets a row of all slices, of another size, which a resize or a crop hides.
# The same holds for stacks of channels, (moments, 4 channels, rows, columns). Known since 2015 (issues 1796, 5242; tifffile's 196); read by tifffile.
# Seen, 2, 3, 4 and 5 slices of 6 x 7: (2, 6, 7), (6, 7, 3), (6, 7, 4), (5, 6, 7); tifffile (n, 6, 7); 5 moments of 3 channels: (5, 6, 7, 3).
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q scikit-image==0.26.0 tifffile==2026.3.3 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import numpy
import skimage.io
import tifffile


def shapes(*sizes):
    stack = numpy.arange(numpy.prod(sizes), dtype="uint16").reshape(sizes)
    tifffile.imwrite("stack.tif", stack, photometric="minisblack")
    assert (tifffile.imread("stack.tif") == stack).all()
    return skimage.io.imread("stack.tif").shape


read = {sizes: shapes(*sizes) for sizes in [(2, 6, 7), (3, 6, 7), (4, 6, 7), (5, 6, 7), (5, 3, 6, 7)]}
print(skimage.__version__, tifffile.__version__, read)
assert read[2, 6, 7] == (2, 6, 7) and read[5, 6, 7] == (5, 6, 7)
assert read[3, 6, 7] == (6, 7, 3) and read[4, 6, 7] == (6, 7, 4), "short stacks stay as they are"
assert read[5, 3, 6, 7] == (5, 6, 7, 3), "channels stay as they are"
PY
