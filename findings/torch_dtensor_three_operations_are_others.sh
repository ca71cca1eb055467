#!/usr/bin/env bash
# torch 2.14.1, DTensors on two processes: three operations give other values than the same tensor in one process, without an error.
# A convolution of a sum that is still to be added up (Partial, as a row-parallel Linear or a sum over a sharded batch leave it) takes
# the part of its own process for the whole and calls the result replicated: with two processes about half of it, and each may go
# on with other numbers. fill_ of such a sum writes the number into each part, so that it counts twice. logsumexp(dim, keepdim=True)
# of a tensor that is sharded along a later dimension is said to be sharded along the one before it: full_tensor() has half of
# the values. Of about 320 operations on shards of rows, of columns and on partial sums these were wrong, and the
# losses of torch_dtensor_losses_multiply_the_gradient.sh. redistribute to Replicate() before them, or keepdim=False.
# Seen, Linear of 6 ones, convolved with 3 ones: 9.0 for 18.0; fill_(3): 6.0; 3 values for 6.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 numpy; FINDINGS_PY=venv/bin/python
fi
cat > operations.py <<'PY'
import os

import torch
from torch import distributed, multiprocessing
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
from torch.nn import functional


def values(place, whole):
    tokens, weight = place(torch.ones(1, 5, 6), Shard(2)), place(torch.ones(1, 6), Shard(1))
    kernel = place(torch.ones(1, 1, 3), Replicate())
    convolved = whole(functional.conv1d(functional.linear(tokens, weight).mT, kernel))[0, 0, 0].item()
    table = place(torch.arange(24.0).reshape(4, 6), Shard(1))
    filled = whole(place(torch.ones(4, 6), Shard(0)).sum(0).fill_(3.0))[0].item()
    kept, dropped = (whole(torch.logsumexp(table, 0, keepdim=keepdim)).numel() for keepdim in (True, False))
    return convolved, filled, kept, dropped


def process(rank, folder):
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    sharded = values(lambda tensor, where: distribute_tensor(tensor, mesh, [where]), lambda tensor: tensor.full_tensor())
    alone = values(lambda tensor, where: tensor, lambda tensor: tensor)
    print(torch.__version__, "process", rank, "convolution, fill_, values with and without keepdim:", sharded, "alone", alone)
    assert alone == (18.0, 3.0, 6, 6), "one tensor has other values"
    assert sharded == (9.0, 6.0, 3, 6), "DTensors have other values"
    distributed.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(process, (os.getcwd(),), nprocs=2)
PY
"$FINDINGS_PY" operations.py
