#!/usr/bin/env bash
# torch 2.14.1: an optimizer whose rate is a tensor, as torch.compile and capturable steps want it, gives all groups without a
# rate of their own the same tensor. A scheduler writes into it in place, one group after the other, so that every group has
# the rate of the last one: LambdaLR with a function for each group, from its construction on. get_last_lr says so too.
# Seen, functions 1.0 and 0.1: [0.001, 0.0001] if the rate is a float, [0.0001, 0.0001] if it is a tensor.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import torch
from torch import nn


def rates(rate):
    groups = [{"params": [nn.Parameter(torch.ones(1))]} for _ in range(2)]
    optimizer = torch.optim.Adam(groups, lr=rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda epoch: 1.0, lambda epoch: 0.1])
    optimizer.step()
    schedule.step()
    return [round(float(group["lr"]), 9) for group in optimizer.param_groups]


by_float, by_tensor = rates(1e-3), rates(torch.tensor(1e-3))
print(torch.__version__, "float", by_float, "tensor", by_tensor)
assert by_float == [1e-3, 1e-4] and by_tensor == [1e-4, 1e-4], "groups have rates of their own"
PY
