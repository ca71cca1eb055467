#!/usr/bin/env bash
# supervision 0.31.2: DetectionDataset.as_coco stores a mask with a hole, or of two parts (an object behind a pole), as RLE with iscrowd=1, and all
# others as polygons with iscrowd=0 (its docstring says so). In COCO a crowd is a group that need not be told apart: pycocotools 2.0.11 neither counts
# it as missed nor lets it count as hit, and most loaders drop crowds from training (torchvision's references do). So the objects
# whose shape is difficult vanish from both, in silence: a network that never sees one of them is scored as perfect.
# Pass data={"iscrowd": zeros} in the Detections, or set iscrowd to 0 in the file: pycocotools reads RLE of single objects as well.
# Seen, a square, one with a hole and one in two parts, a detector that gives the first alone: AP 1.0 as written, 0.34 with iscrowd 0 in the file.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q supervision==0.31.2 pycocotools==2.0.11 numpy==2.4.6 opencv-python-headless==5.0.0.93; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import contextlib
import io
import json

import cv2
import numpy
import supervision
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

masks = numpy.zeros((3, 128, 128), bool)
for mask, start in zip(masks, (5, 45, 85), strict=True):
    mask[start : start + 36, start : start + 36] = True
masks[1, 60:66, 60:66] = False  # a hole
masks[2, :, 100:106] = False  # two parts
cv2.imwrite("a.png", numpy.zeros((128, 128, 3), "uint8"))
objects = supervision.Detections(
    xyxy=supervision.mask_to_xyxy(masks).astype(float), mask=masks, class_id=numpy.zeros(3, int)
)
labelled = supervision.DetectionDataset(classes=["cell"], images=["a.png"], annotations={"a.png": objects})
labelled.as_coco(images_directory_path="images", annotations_path="coco.json")


def average_precision():
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO("coco.json")
        square = coco.loadAnns(coco.getAnnIds())[0]
        detected = {key: square[key] for key in ("image_id", "category_id")}
        detected |= {"segmentation": coco.annToRLE(square), "score": 0.9}
        evaluation = COCOeval(coco, coco.loadRes([detected]), "segm")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return round(float(evaluation.stats[0]), 2)


content = json.load(open("coco.json"))
crowds = [annotation["iscrowd"] for annotation in content["annotations"]]
precision = {"as written": average_precision()}
for annotation in content["annotations"]:
    annotation["iscrowd"] = 0
json.dump(content, open("coco.json", "w"))
precision["no crowds"] = average_precision()
print(supervision.__version__, "iscrowd", crowds, "AP", precision)
assert crowds == [0, 1, 1], "objects with holes are no crowds"
assert precision == {"as written": 1.0, "no crowds": 0.34}, "AP has changed"
PY
