#!/usr/bin/env bash
# trimesh 5.2.0 reads a PLY file of doubles as doubles and writes each PLY as 32-bit floats, which the format does not ask for. Surveys have places in metres on
# a national or UTM grid, whose northing goes into the millions: in 32 bits neighbouring numbers there are half a metre apart. A scan that is read,
# cropped or turned and exported lies on a lattice in one direction and is fine in another; normals, curvatures and neighbours, which
# are what a network for points is fed, are those of the lattice. No warning, and the file is half as large. plyfile 1.1.5 keeps the type.
# Subtract an origin first. Seen, northings 4649776.0, .1, .2, .3, .4: read as they are, exported 4649776.0, 776.0, 776.0, 776.5, 776.5.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q trimesh==5.2.0 plyfile==1.1.5 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import importlib.metadata

import numpy
import plyfile
import trimesh

northings = 4_649_776 + numpy.arange(5) / 10
points = numpy.zeros(5, [("x", "f8"), ("y", "f8"), ("z", "f8")])
points["y"] = northings
plyfile.PlyData([plyfile.PlyElement.describe(points, "vertex")]).write("scan.ply")
cloud = trimesh.load("scan.ply")
assert cloud.vertices[:, 1].tolist() == northings.tolist()
cloud.export("exported.ply")
exported = plyfile.PlyData.read("exported.ply")["vertex"]["y"]
print(trimesh.__version__, importlib.metadata.version("plyfile"), exported.dtype, exported.tolist())
assert exported.dtype == "float32", "doubles are written"
assert exported.tolist() == [4649776.0, 4649776.0, 4649776.0, 4649776.5, 4649776.5]
PY
