#!/usr/bin/env bash
# torchvision 0.29.1: batched_nms drops a box that nms of its class keeps. It moves the boxes of each class by class times the largest
# coordinate and treats them as one, and in float32 a small box does not survive that: with the 1,203 classes of LVIS and
# pictures of 1,333 pixels coordinates are rounded to 0.125 pixels. Above 1,000 boxes on a CPU (25,000 on a GPU, not run) it goes class
# by class and is right, so whether a box is found depends on how many others there are. With 80 classes the rounding is 0.008.
# Seen, two boxes of class 1202 of 4 x 4 pixels, overlap 0.4925, limit 0.5: nms keeps both; batched_nms keeps 1 of them
# among 3 boxes, and both among 1,003.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 torchvision==0.29.1 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import torch
import torchvision
from torchvision.ops import batched_nms, box_iou, nms

pair = torch.tensor([[100.07, 50.0, 104.07, 54.0], [101.43, 50.0, 105.43, 54.0]])
overlap = round(box_iou(pair[:1], pair[1:]).item(), 4)
corner = torch.tensor([[1323.0, 790.0, 1333.0, 800.0]])  # the picture is 1,333 pixels wide
kept = {"nms": nms(pair, torch.tensor([0.9, 0.8]), 0.5).tolist()}
for others in (1, 1001):
    boxes = torch.cat([pair, corner.expand(others, 4)])
    scores = torch.cat([torch.tensor([0.9, 0.8]), torch.linspace(0.5, 0.1, others)])
    classes = torch.tensor([1202, 1202] + [0] * others)
    kept[others] = [index for index in batched_nms(boxes, scores, classes, 0.5).tolist() if index < 2]
print(torchvision.__version__, "overlap", overlap, "kept of the pair", kept)
assert overlap == 0.4925 and kept == {"nms": [0, 1], 1: [0], 1001: [0, 1]}, "boxes are moved otherwise"
PY
