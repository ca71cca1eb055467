#!/usr/bin/env bash
# laspy 2.7.0: LasWriter.write_points converts points that were read from a file with another scale or offset; LasAppender.append_points
# (laspy.open(path, "a")) does not: it checks the point format alone and writes the stored integers as they lie, under the scale and
# offset of the file that they are appended to. Surveys are cut into tiles whose offsets are often their corners, so tiles that are joined by appending lie
# on top of each other, classes and all, and blocks cut for training mix them; the header's extent is that of the heap. No warning.
# laspy's issues 150 and 254 had it, answered by the advice to call change_scaling first. Write joined files through one LasWriter.
# Seen, 1, 2, 3 and (offset 1000) 1001, 1002, 1003: write_points 1, 2, 3, 1001, 1002, 1003; append_points 1, 2, 3, 1, 2, 3.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q laspy==2.7.0 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import laspy
import numpy


def tile(path, offset):
    header = laspy.LasHeader(point_format=3, version="1.2")
    header.offsets, header.scales = [offset] * 3, [0.01] * 3
    points = laspy.LasData(header)
    points.x = points.y = points.z = offset + numpy.array([1.0, 2.0, 3.0])
    points.write(path)


tile("a.las", 0)
tile("b.las", 1000)
with laspy.open("a.las") as first, laspy.open("b.las") as second:
    with laspy.open("written.las", "w", header=first.header) as joined:
        for reader in (first, second):
            for chunk in reader.chunk_iterator(2):
                joined.write_points(chunk)
with laspy.open("b.las") as second, laspy.open("a.las", "a") as joined:
    for chunk in second.chunk_iterator(2):
        joined.append_points(chunk)
places = {path: laspy.read(path).x[:] for path in ("written.las", "a.las")}
places = {path: [round(float(x), 2) for x in places[path]] for path in places}
print(laspy.__version__, "write_points, append_points:", places)
assert places["written.las"] == [1, 2, 3, 1001, 1002, 1003]
assert places["a.las"] == [1, 2, 3, 1, 2, 3], "appended points are converted"
PY
