#!/usr/bin/env bash
# torcheval 0.0.7: MulticlassAccuracy with k above 1, HitRate and ReciprocalRank count the classes with a larger score than the
# target's and take fewer than k of them for right. Where nothing is larger all is right: a network that gives every class
# the same, as one with a zero last layer or dead units does, and one whose outputs are NaN have a top-5 accuracy of 1.0,
# the best there is, so that a rule for the best checkpoint keeps them. torchmetrics 1.9.0 takes five of the equal ones.
# Seen, a sample of each of ten classes, zeros and NaN alike: 1.0 with k=5 and k=2, hit rate 1.0 with k=1; torchmetrics 0.5 with k=5.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 torcheval==0.0.7 torchmetrics==1.9.0 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import math

import torch
import torcheval
import torchmetrics
from torcheval.metrics import functional
from torchmetrics.functional.classification import multiclass_accuracy

targets, values = torch.arange(10), {}
for name, score in (("zero", 0.0), ("nan", math.nan)):
    scores = torch.full((10, 10), score)
    values[name] = {
        "top 5": functional.multiclass_accuracy(scores, targets, k=5).item(),
        "top 2": functional.multiclass_accuracy(scores, targets, k=2).item(),
        "hit": functional.hit_rate(scores, targets, k=1).mean().item(),
        "rank": functional.reciprocal_rank(scores, targets).mean().item(),
        "torchmetrics": multiclass_accuracy(scores, targets, 10, average="micro", top_k=5, validate_args=False).item(),
    }
print(torcheval.__version__, torchmetrics.__version__, values)
expected = {"top 5": 1.0, "top 2": 1.0, "hit": 1.0, "rank": 1.0, "torchmetrics": 0.5}
assert values == {"zero": expected, "nan": expected}, "ties are not right"
PY
