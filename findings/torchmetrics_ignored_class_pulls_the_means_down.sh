#!/usr/bin/env bash
# torchmetrics 1.9.0: with ignore_index=0, as one leaves out the background or padding, the samples of class 0 do not count, but
# the class stays in the macro mean as soon as it is predicted anywhere: with 0.0, since none of its targets is left. F1,
# precision, recall and accuracy so fall by a factor of 2/3 for three classes; the Jaccard index leaves the class out. A network
# that never predicts the class has the mean of the others, so the value jumps once it does. average="none" and a mean over
# the classes that count avoid it. scikit-learn 1.9.1 with labels=[1, 2] has the mean of the two.
# Seen, two classes with recall 2/3 each: recall 0.4444, scikit-learn 0.6667, Jaccard's 0.6667; F1 0.5333, scikit-learn 0.8.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 torchmetrics==1.9.0 scikit-learn==1.9.1; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import sklearn
import torch
import torchmetrics
from sklearn import metrics as reference
from torchmetrics import classification

predicted = torch.tensor([1, 2, 0, 1, 2, 0, 1])
targets = torch.tensor([1, 2, 1, 1, 2, 2, 0])
counts = targets != 0
pairs = {
    "MulticlassRecall": reference.recall_score,
    "MulticlassF1Score": reference.f1_score,
    "MulticlassJaccardIndex": reference.jaccard_score,
}
values = {}
for name, score in pairs.items():
    metric = getattr(classification, name)(3, average="macro", ignore_index=0)
    expected = score(targets[counts], predicted[counts], labels=[1, 2], average="macro")
    values[name] = (round(metric(predicted, targets).item(), 4), round(expected, 4))
print(torchmetrics.__version__, sklearn.__version__, values)
assert values == {
    "MulticlassRecall": (0.4444, 0.6667), "MulticlassF1Score": (0.5333, 0.8), "MulticlassJaccardIndex": (0.6667, 0.6667),
}, "the ignored class counts otherwise"
PY
