#!/usr/bin/env bash
# torchmetrics 1.9.0: reciprocal rank, average precision, precision and recall of torchmetrics.retrieval count a relevant document whose score
# is 0 or less as irrelevant. Scores are logits, distances with a minus or cosine similarities as often as probabilities; a ranking in
# perfect order then has the value 0, and the mean over queries says how many scores are positive rather than how they are ordered.
# NDCG, hit rate, fall-out and R-precision go by the order alone. Hand over sigmoids, or scores moved above 0, which change no order.
# Seen, the relevant document first of four with scores -1 to -4: 0 for the four metrics, 1 for the same scores plus 5 (precision among two
# 0.5, recall 1); NDCG, hit rate and R-precision 1 in both.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 torchmetrics==1.9.0 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import torch
import torchmetrics
from torchmetrics import retrieval

scores, relevant = torch.tensor([-1.0, -2.0, -3.0, -4.0]), torch.tensor([1, 0, 0, 0])
query = torch.zeros(4, dtype=torch.long)
metrics = {
    "reciprocal rank": retrieval.RetrievalMRR(),
    "average precision": retrieval.RetrievalMAP(),
    "precision": retrieval.RetrievalPrecision(top_k=2),
    "recall": retrieval.RetrievalRecall(top_k=2),
    "ndcg": retrieval.RetrievalNormalizedDCG(),
    "hit rate": retrieval.RetrievalHitRate(top_k=1),
    "r precision": retrieval.RetrievalRPrecision(),
}
values = {
    name: (metric(scores, relevant, indexes=query).item(), metric(scores + 5, relevant, indexes=query).item())
    for name, metric in metrics.items()
}
print(torchmetrics.__version__, torch.__version__, values)
assert values == {
    "reciprocal rank": (0.0, 1.0), "average precision": (0.0, 1.0), "precision": (0.0, 0.5), "recall": (0.0, 1.0),
    "ndcg": (1.0, 1.0), "hit rate": (1.0, 1.0), "r precision": (1.0, 1.0),
}, "scores below zero are ranked"
PY
