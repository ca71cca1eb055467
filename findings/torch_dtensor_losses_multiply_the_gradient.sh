#!/usr/bin/env bash
# torch 2.14.1: mse_loss, smooth_l1_loss, huber_loss and binary_cross_entropy of DTensors that are sharded over the batch give the
# right loss and a gradient that is as many times too large as there are processes: the backward pass divides by the samples of
# a process, and sums the processes. Adam hides the factor, SGD, clipping and weight decay do not, and a run on 8 processes is
# another one than on 1. Where the batch does not divide, the loss is wrong too: the mean of the means. l1_loss,
# binary_cross_entropy_with_logits, cross_entropy and (a - b).square().mean() have the gradient of one process.
# Seen, 2 processes on gloo, 4 samples: gradient / right one: mse 2.0, smooth_l1 2.0, l1 1.0, square().mean() 1.0; 5 samples: mse 7.083 for 6.0.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 numpy; FINDINGS_PY=venv/bin/python
fi
cat > losses.py <<'PY'
import os

import torch
from torch import distributed, multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
from torch.nn import functional

LOSSES = {
    "mse": functional.mse_loss,
    "smooth_l1": functional.smooth_l1_loss,
    "l1": functional.l1_loss,
    "square().mean()": lambda outputs, targets: (outputs - targets).square().mean(),
}


def loss_and_gradient(loss, samples, mesh):
    inputs = torch.arange(1.0, samples + 1)[:, None]
    place = (lambda tensor: tensor) if mesh is None else (lambda tensor: distribute_tensor(tensor, mesh, [Shard(0)]))
    outputs = place(inputs - 1).requires_grad_()
    value = loss(outputs, place(torch.zeros_like(inputs)))
    value.backward()
    whole = [value, outputs.grad] if mesh is None else [value.full_tensor(), outputs.grad.full_tensor()]
    return round(whole[0].item(), 3), whole[1][-1].item()


def process(rank, folder):
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    ratios, values = {}, {}
    for name, loss in LOSSES.items():
        for samples in (4, 5):
            value, gradient = loss_and_gradient(loss, samples, mesh)
            right, right_gradient = loss_and_gradient(loss, samples, None)
            ratios[name, samples], values[name, samples] = round(gradient / right_gradient, 3), (value, right)
    if rank == 0:
        print(torch.__version__, ratios, values)
        assert [ratios[name, 4] for name in LOSSES] == [2.0, 2.0, 1.0, 1.0], "gradients have other factors"
        assert values["mse", 4] == (3.5, 3.5) and values["mse", 5] == (7.083, 6.0), "losses are others"
    distributed.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(process, (os.getcwd(),), nprocs=2)
PY
"$FINDINGS_PY" losses.py
