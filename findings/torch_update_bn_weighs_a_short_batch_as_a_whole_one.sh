#!/usr/bin/env bash
# torch 2.14.1: swa_utils.update_bn, which measures the statistics of BatchNorm again for averaged weights, takes the mean over
# batches, not over samples: a last batch of 2 samples counts as much as one of 128, and its variance, of 2 values, too. The
# DataLoader's default is to give that batch, and the error is largest where an epoch has few batches. drop_last=True in the
# loader that is measured, or sizes that divide, avoid it; all BatchNorm with momentum=None count so.
# Seen, 128 samples of -1 and 1, and 2 of 10: running mean 5.0, of all samples 0.154; with drop_last=True 0.0.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn
from torch.utils.data import DataLoader

samples = torch.cat([torch.tensor([-1.0, 1.0]).repeat(64), torch.full((2,), 10.0)])[:, None]


def measured(drop_last):
    averaged = AveragedModel(nn.Sequential(nn.BatchNorm1d(1)))
    update_bn(DataLoader(samples, batch_size=128, drop_last=drop_last), averaged)
    return averaged.module[0].running_mean.item()


with_short, without = measured(False), measured(True)
of_all = samples.mean().item()
print(torch.__version__, "running mean", with_short, "of all samples", round(of_all, 3), "without the short batch", without)
assert (with_short, without) == (5.0, 0.0), "batches are weighted otherwise"
PY
