#!/usr/bin/env bash
# datasets' imagefolder takes a class whose folder has "train", "test", "val", "dev" or "eval" as one
# of its words for a part of the data. It then reads that folder alone: the other classes and the
# labels are gone, without a warning. "train" is a class of PASCAL VOC, COCO and CIFAR-100.
# datasets 5.2.0; drop_labels=False gives that one folder a label. All are read, with their labels, by
# load_dataset("imagefolder", data_files={"train": "pictures/**"}).
# Output: bus, car, tram: train 12 pictures, labels bus, car, tram
#         bus, car, train: train 4 pictures, no labels
#         bus, car, high speed train: train 4 pictures, no labels
#         bus, car, test_rig: test 4 pictures, no labels
#         bus, car, trainer: train 12 pictures, labels bus, car, trainer
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python=${FINDINGS_PY:-}
if [ -z "$python" ]; then
  python3 -m venv venv
  python=$folder/venv/bin/python
  "$python" -m pip install -q datasets==5.2.0 pillow==13.0.0
fi
export HF_HUB_OFFLINE=1 HF_DATASETS_DISABLE_PROGRESS_BARS=1
"$python" - <<'PYTHON'
from pathlib import Path

import datasets
from PIL import Image

EXPECTED = {
    "tram": ("train", 12, True),
    "train": ("train", 4, False),
    "high speed train": ("train", 4, False),
    "test_rig": ("test", 4, False),
    "trainer": ("train", 12, True),
}
is_as_found = True
for number, (third, expected) in enumerate(EXPECTED.items()):
    classes = ["bus", "car", third]
    for name in classes:
        (pictures := Path(f"pictures{number}", name)).mkdir(parents=True)
        for place in range(4):
            Image.new("RGB", (8, 8), (place, 0, 0)).save(pictures / f"{place}.png")
    parts = datasets.load_dataset("imagefolder", data_dir=f"pictures{number}", cache_dir="cache")
    ((part, rows),) = parts.items()
    label = rows.features.get("label")
    shown = f"labels {', '.join(label.names)}" if label else "no labels"
    print(f"{', '.join(classes)}: {part} {len(rows)} pictures, {shown}")
    is_as_found &= (part, len(rows), label is not None) == expected
raise SystemExit(not is_as_found)
PYTHON
