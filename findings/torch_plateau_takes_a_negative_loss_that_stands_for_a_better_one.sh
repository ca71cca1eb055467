#!/usr/bin/env bash
# torch 2.14.1: ReduceLROnPlateau, by default (threshold 1e-4, relative), calls a value better that is below best * (1 - 1e-4). For a
# negative loss, such as a log likelihood of densities, that limit lies above the best: a loss that stands still is better each
# time, and one that rises by less than 0.01 % too, so the rate is never reduced. mode="max" has it for negative scores (R2,
# ELBO). threshold_mode="abs" is right for both. timm's PlateauLRScheduler wraps this class.
# Seen, 12 epochs without progress, patience 2: the rate 1.0 falls to 0.001 for a loss of 1.0, and stays 1.0 for -1.0 and for a
# loss that rises from -1.0 in steps of 0.00005; with threshold_mode="abs" 0.001 for all three.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau


def rate_after(losses, threshold_mode):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = ReduceLROnPlateau(optimizer, patience=2, threshold_mode=threshold_mode)
    for loss in losses:
        scheduler.step(loss)
    return round(optimizer.param_groups[0]["lr"], 6)


series = {"1.0": [1.0] * 12, "-1.0": [-1.0] * 12, "rising from -1.0": [-1.0 + 5e-5 * epoch for epoch in range(12)]}
rates = {mode: [rate_after(losses, mode) for losses in series.values()] for mode in ("rel", "abs")}
print(torch.__version__, list(series), rates)
assert rates == {"rel": [0.001, 1.0, 1.0], "abs": [0.001, 0.001, 0.001]}, "negative losses are compared otherwise"
PY
