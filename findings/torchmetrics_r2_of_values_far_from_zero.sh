#!/usr/bin/env bash
# torchmetrics 1.9.0: R2Score and ExplainedVariance sum squares in float32 and subtract two large numbers. Where the mean of the
# targets is far from 0 as measured by their spread, as that of places in one town is, the digits that differ are gone, and a
# model that explains nothing gets any score, without a word: also above 1, which no model has. The same metric fed with
# float64, and PearsonCorrCoef of the same package, which updates means and variances, are right.
# Seen, 100,000 predictions as far off as the targets spread, so that R2 is 0, in batches of 1,000: latitudes of 48.85 +- 0.01
# degrees and northings of 5,400,000 +- 1,000 m are off by more than 0.3 (1.103 and 0.91); in float64 by less than 0.02.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 torchmetrics==1.9.0 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import torch
import torchmetrics
from torchmetrics.regression import R2Score


def measured(mean, spread, dtype):
    generator, metric = torch.Generator().manual_seed(0), R2Score()
    noise, error = torch.randn(2, 100_000, generator=generator, dtype=torch.float64) * spread
    targets, predictions = (mean + noise).float(), (mean + noise + error).float()
    for batch in zip(predictions.to(dtype).split(1000), targets.to(dtype).split(1000)):
        metric.update(*batch)
    return round(metric.compute().item(), 3)


cases = {"latitude": (48.85, 0.01), "northing": (5.4e6, 1e3)}
single, double = ([measured(*case, dtype) for case in cases.values()] for dtype in (torch.float32, torch.float64))
print(torchmetrics.__version__, list(cases), "float32", single, "float64", double)
assert all(abs(value) < 0.02 for value in double), "the right value is another"
assert all(abs(value) > 0.3 for value in single), "R2 keeps its digits"
PY
