#!/usr/bin/env bash
# torchvision 0.29.1: a flip of tv_tensors.KeyPoints takes coordinates for numbers of pixels (x becomes width - 1 - x), a
# rotation, affine or perspective for places between edges (x becomes width - x). A point on pixel [1, 2] stays on it through
# flips, and is one pixel beside it after a rotation; the same turn by two flips and by rotate gives two answers. A
# heatmap of 64 x 64 notices, and no choice of coordinates is right for both: a flip of a centre at 1.5 gives 5.5, not 6.5.
# Seen, 8 x 8, pixel [1, 2]: two flips: pixel [6, 5], point [6, 5]; rotate(180): pixel [6, 5], point [7, 6]; rotate(90): [2, 6], [2, 7].
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 torchvision==0.29.1 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import torch
import torchvision
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional

picture = tv_tensors.Image(torch.zeros(1, 8, 8))
picture[0, 2, 1] = 1  # row, column
point = tv_tensors.KeyPoints(torch.tensor([[1.0, 2.0]]), canvas_size=(8, 8))
TURNS = {
    "two flips": lambda x: functional.vertical_flip(functional.horizontal_flip(x)),
    "rotate(180)": lambda x: functional.rotate(x, 180.0),
    "rotate(90)": lambda x: functional.rotate(x, 90.0),
}
places = {}
for name, turn in TURNS.items():
    row, column = turn(picture)[0].nonzero()[0].tolist()
    places[name] = [column, row], [round(value) for value in turn(point)[0].tolist()]
    print(torchvision.__version__, name, "pixel", places[name][0], "point", places[name][1])
assert places["two flips"] == ([6, 5], [6, 5]), "flips have changed"
assert places["rotate(180)"] == ([6, 5], [7, 6]) and places["rotate(90)"] == ([2, 6], [2, 7]), "rotations have changed"
PY
