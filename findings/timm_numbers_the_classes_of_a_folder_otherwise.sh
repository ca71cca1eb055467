#!/usr/bin/env bash
# timm 1.0.31 numbers the folders of a picture data set in natural order and without regard to capitals (2 before 10, a before B);
# torchvision 0.29.1's ImageFolder sorts them as text (10 before 2, B before a), as most others do. Weights trained by timm's
# scripts on folders with numbers or capitals therefore answer with other classes when they are measured or served over
# an ImageFolder of the same files: the shapes fit, nothing is reported, and accuracy is what a permutation leaves. Store
# the names with the weights: neither file format has them. Folders of lower-case names or of equal length are alike.
# Seen, of six folders: timm 1, 2, 10, a, Ant, B; torchvision 1, 10, 2, Ant, B, a; one class has the same number.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; FINDINGS_PY=venv/bin/python
  venv/bin/pip install -q torch==2.14.1 torchvision==0.29.1 timm==1.0.31 pillow numpy
fi
"$FINDINGS_PY" - <<'PY'
from pathlib import Path

import timm.data
import torchvision
from PIL import Image

for name in ("1", "2", "10", "B", "a", "Ant"):
    Path("train", name).mkdir(parents=True)
    Image.new("RGB", (4, 4)).save(Path("train", name, "picture.png"))
by_timm = timm.data.create_dataset("", root="train").reader.class_to_idx
by_torchvision = torchvision.datasets.ImageFolder("train").class_to_idx
print(timm.__version__, torchvision.__version__, by_timm, by_torchvision)
assert sorted(by_torchvision, key=by_torchvision.get) == ["1", "10", "2", "Ant", "B", "a"]
assert sorted(by_timm, key=by_timm.get) == ["1", "2", "10", "a", "Ant", "B"], "classes have another order"
PY
