#!/usr/bin/env bash
# torch 2.14.1: nn.Embedding(max_norm=...) rescales the rows that it looks up in place, in each forward. Under
# DistributedDataParallel each process looks up other rows, and rescales them in its own copy alone; the gradients that are
# averaged afterwards move copies that differ already. Nothing compares them again, and rank 0's is what is saved.
# Evaluation rescales too, under inference_mode as well, so that a validation changes the weights that are trained on.
# Seen, 2 processes on gloo, 20 steps: copies differ by 0.0 without max_norm, by 2.9 with it; changed by evaluation: True.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 numpy; FINDINGS_PY=venv/bin/python
fi
cat > ranks.py <<'PY'
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

max_norm = float(sys.argv[1]) if len(sys.argv) > 1 else None
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(99, 4, max_norm=max_norm), nn.Linear(4, 1))
copies = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(copies.parameters(), lr=0.5)
for step in range(20):
    tokens = torch.randint(99, (4,), generator=torch.Generator().manual_seed(2 * step + rank))
    optimizer.zero_grad()
    copies(tokens).square().mean().backward()
    optimizer.step()
rows = [torch.empty(99, 4) for _ in range(2)]
dist.all_gather(rows, model[0].weight.detach())
model.eval()
before = model[0].weight.detach().clone()
with torch.inference_mode():
    model(torch.arange(99))
is_changed = not torch.equal(before, model[0].weight.detach())
difference = float((rows[0] - rows[1]).abs().max())
if rank == 0:
    print(torch.__version__, f"max_norm {max_norm}: copies differ by {difference}; changed by evaluation: {is_changed}", flush=True)
dist.destroy_process_group()
expected = difference > 0.01 and is_changed if max_norm else difference == 0 and not is_changed
sys.exit(not expected)
PY
export OMP_NUM_THREADS=1
"$FINDINGS_PY" -m torch.distributed.run --standalone --nproc-per-node=2 ranks.py
"$FINDINGS_PY" -m torch.distributed.run --standalone --nproc-per-node=2 ranks.py 1.0
