#!/usr/bin/env bash
# laspy 2.7.0: convert between the old point formats (0 to 5) and those of LAS 1.4 (6 to 10) leaves the angle of the scan out, both ways: the one has it as
# scan_angle_rank in whole degrees, the other as scan_angle in steps of 0.006 degrees, and fields of other names are not copied. The new field is there,
# all zero, "straight down". Tiles of an old and a new flight that are brought to one format so have the angle in one half only, and a
# network with that feature learns which flight a point is from. The two are one quantity at two precisions.
# No warning; laspy.lost_dimensions, if it is called, names the field. Copy it by hand. No report was seen.
# Seen, ranks 10, -20 from format 3 to 6: scan_angle 0, 0 (1667, -3333 are meant); scan_angle 1000, -3000 from 6 to 3: ranks 0, 0 (6, -18).
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q laspy==2.7.0 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" -W error - <<'PY'
import laspy
import numpy


def points(point_format, version, field, angles):
    las = laspy.LasData(laspy.LasHeader(point_format=point_format, version=version))
    las.x = las.y = las.z = numpy.array([1.0, 2.0])
    las[field] = numpy.array(angles)
    las.write("points.las")
    return laspy.read("points.las")


old = points(3, "1.2", "scan_angle_rank", [10, -20])
new = points(6, "1.4", "scan_angle", [1000, -3000])
assert old.scan_angle_rank.tolist() == [10, -20] and new.scan_angle.tolist() == [1000, -3000]
raised = laspy.convert(old, point_format_id=6, file_version="1.4")
lowered = laspy.convert(new, point_format_id=3, file_version="1.2")
lost = laspy.lost_dimensions(3, 6)
print(laspy.__version__, raised.scan_angle.tolist(), lowered.scan_angle_rank.tolist(), "lost_dimensions:", lost)
assert raised.scan_angle.tolist() == [0, 0] and lowered.scan_angle_rank.tolist() == [0, 0], "angles are converted"
PY
