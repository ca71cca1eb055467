#!/usr/bin/env bash
# torch 2.14.1, gloo: all_reduce with MAX or MIN keeps a NaN of the first process and drops one of the second, where a sum keeps
# both and torch.max of one process keeps any. A check for NaN by the largest value so depends on which process has it;
# the maximum of a DTensor in shards, and torch.nn.utils.get_total_norm(..., norm_type=inf), with which clip_grad_norm_ clips by
# the largest gradient, are finite although a gradient is NaN, and error_if_nonfinite has nothing to see. Reduce a flag, or a sum.
# Seen, 2 processes: NaN, 1 -> nan; 1, NaN -> 1.0; DTensor 0, 1, 2 and 3, 1, NaN: max 2.0, norm inf 2.0, sum nan.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 numpy; FINDINGS_PY=venv/bin/python
fi
cat > maximum.py <<'PY'
import math
import os

import torch
from torch import distributed, multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def process(rank, folder):
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    reduced = []
    for values in ((math.nan, 1.0), (1.0, math.nan)):
        for operation in (distributed.ReduceOp.MAX, distributed.ReduceOp.MIN, distributed.ReduceOp.SUM):
            value = torch.tensor([values[rank]])
            distributed.all_reduce(value, operation)
            reduced.append(str(value.item()))
    rows = torch.tensor([0.0, 1.0, 2.0, 3.0, 1.0, math.nan])
    sharded = distribute_tensor(rows, init_device_mesh("cpu", (2,)), [Shard(0)])
    norm = torch.nn.utils.get_total_norm([sharded], math.inf)
    found = [str(value.full_tensor().item()) for value in (sharded.max(), norm, sharded.sum())]
    if rank == 0:
        print(torch.__version__, "MAX, MIN, SUM", reduced, "max, norm, sum of a DTensor", found, "torch.max", rows.max().item())
        assert reduced == ["nan", "nan", "nan", "1.0", "1.0", "nan"], "NaN is reduced otherwise"
        assert found == ["2.0", "2.0", "nan"], "shards are reduced otherwise"
    distributed.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(process, (os.getcwd(),), nprocs=2)
PY
"$FINDINGS_PY" maximum.py
