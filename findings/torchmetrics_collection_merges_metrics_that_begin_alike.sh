#!/usr/bin/env bash
# torchmetrics 1.9.0: a MetricCollection looks after the first batch which of its metrics have equal states, and from then on
# updates one of them and gives its value to all. Metrics of one class with other arguments (a threshold, an ignored class)
# that agree on the first batch only are one metric for the rest of the run: two thresholds report one accuracy, and the names
# in the log say otherwise. The first batch is often small (a sanity check of validation). compute_groups=False keeps them apart.
# Seen: accuracy at 0.5 and at 0.9, a first batch of 2 clear samples and a second of 3: 1.0 and 1.0; apart 1.0 and 0.6.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 torchmetrics==1.9.0 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import torch
import torchmetrics
from torchmetrics import MetricCollection
from torchmetrics.classification import BinaryAccuracy

batches = [([0.95, 0.05], [1, 0]), ([0.6, 0.7, 0.2], [1, 1, 0])]


def measured(**options):
    metrics = MetricCollection({f"at_{round(at * 100)}": BinaryAccuracy(threshold=at) for at in (0.5, 0.9)}, **options)
    for probabilities, targets in batches:
        metrics.update(torch.tensor(probabilities), torch.tensor(targets))
    return {name: round(value.item(), 4) for name, value in metrics.compute().items()}


grouped, apart = measured(), measured(compute_groups=False)
print(torchmetrics.__version__, "together", grouped, "apart", apart)
assert grouped == {"at_50": 1.0, "at_90": 1.0}, "metrics of other arguments stay apart"
assert apart == {"at_50": 1.0, "at_90": 0.6}
PY
