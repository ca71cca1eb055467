#!/usr/bin/env bash
# pycocotools 2.0.11: an object whose annotation has the id 0 is never found, without a word. COCOeval notes for each detection the id
# of the object that it matched, and 0 for none, so a perfect detection of object 0 is a false one, and the object is missed. The
# format asks for unique ids, not for ids from 1, and converters that number with enumerate() begin at 0. One object of a large
# set costs little and is seen by nobody; a small validation set, or a class with few objects, loses much.
# faster-coco-eval 1.8.0 gives the same values, with a warning.
# Seen, perfect detections: ids from 1: AP 1.0; from 0: 0.0 for one object, 0.252 for two.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q pycocotools==2.0.11 faster-coco-eval==1.8.0; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import contextlib
import io
from importlib.metadata import version

import faster_coco_eval
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval


def average_precision(data, evaluation, first, count):
    box = {"category_id": 1, "bbox": [10, 10, 40, 40], "area": 1600, "iscrowd": 0}
    objects = data()
    objects.dataset = {
        "info": {},
        "images": [{"id": image, "width": 100, "height": 100} for image in range(count)],
        "categories": [{"id": 1, "name": "thing"}],
        "annotations": [{"id": first + image, "image_id": image, **box} for image in range(count)],
    }
    objects.createIndex()
    detected = [{"image_id": image, "score": 0.9 - 0.1 * image, **box} for image in range(count)]
    judged = evaluation(objects, objects.loadRes(detected), "bbox")
    judged.evaluate()
    judged.accumulate()
    judged.summarize()
    return round(float(judged.stats[0]), 3)


packages = {"pycocotools": (COCO, COCOeval), "faster-coco-eval": (faster_coco_eval.COCO, faster_coco_eval.COCOeval_faster)}
values = {}
with contextlib.redirect_stdout(io.StringIO()):
    for name, classes in packages.items():
        values[name] = [average_precision(*classes, first, count) for first, count in ((1, 1), (0, 1), (1, 2), (0, 2))]
print({name: version(name) for name in packages}, values)
assert values == dict.fromkeys(packages, [1.0, 0.0, 1.0, 0.252]), "annotation 0 is matched"
PY
