#!/usr/bin/env bash
# torchmetrics 1.9.0: metrics that rank yes-or-no answers turn logits into probabilities in float32 first, where every logit above
# about 17 is 1. The answers that a trained network is surest of are then ties, so AUROC and average precision fall to chance
# among them, though the order was right; below -17 probabilities stay apart, so the two classes do not fall alike. The same answers
# as float64 are ranked, as far as 36. scikit-learn 1.9.1 ranks the logits themselves. Hand over float64, or the negated logits of the
# other class. Seen, logits 20 to 25 in the right order: AUROC 0.5 and average precision 0.5, of float64 and by scikit-learn
# 1.0; of logits -25 to -20 1.0.
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
from torchmetrics.classification import BinaryAUROC, BinaryAveragePrecision

logits, targets = torch.arange(20.0, 26.0), torch.tensor([0, 0, 0, 1, 1, 1])
expected = (reference.roc_auc_score(targets, logits), reference.average_precision_score(targets, logits))
values = {
    name: (BinaryAUROC()(given, targets).item(), BinaryAveragePrecision()(given, targets).item())
    for name, given in {"float32": logits, "float64": logits.double(), "low": logits - 45}.items()
}
print(torchmetrics.__version__, sklearn.__version__, values, expected)
assert expected == values["float64"] == values["low"] == (1.0, 1.0)
assert values["float32"] == (0.5, 0.5), "confident logits are ranked"
PY
