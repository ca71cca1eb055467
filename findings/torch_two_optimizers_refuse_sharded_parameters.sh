#!/usr/bin/env bash
# torch 2.14.1: of torch's own optimizers Adafactor and Rprop cannot step parameters of fully_shard (FSDP2): their in-place
# operations on a DTensor (a norm's pow_, an index_put_) would change its placement, which is an error at the first step.
# Adam, AdamW (also foreach and fused), Adagrad, Adamax, ASGD, NAdam and SGD step them with the bits of one process.
# Seen: "in-place operations that require placement changes are not supported" for the two, difference 0.0 for the others.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 numpy; FINDINGS_PY=venv/bin/python
fi
cat > sharded.py <<'PY'
import os
import torch
import torch.distributed
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

NAMES = ("SGD", "Adam", "AdamW", "Adagrad", "Adamax", "ASGD", "NAdam", "Adafactor", "Rprop")


def trained(name, mesh=None):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(8, 16, bias=False), nn.Tanh(), nn.Linear(16, 6, bias=False))
    if mesh is not None:
        fully_shard(network, mesh=mesh)
    optimizer = getattr(torch.optim, name)(network.parameters(), lr=1e-2)
    draw = torch.Generator().manual_seed(1)
    for _ in range(5):
        inputs, targets = torch.randn(12, 8, generator=draw), torch.randn(12, 6, generator=draw)
        optimizer.zero_grad()
        (network(inputs) - targets).square().mean().backward()
        optimizer.step()
    weights = [weight.detach() for weight in network.parameters()]
    return [weight.full_tensor() if mesh is not None else weight for weight in weights]


def work(rank):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29771")
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    mesh, results = init_device_mesh("cpu", (2,)), {}
    for name in NAMES:
        try:
            pairs = zip(trained(name), trained(name, mesh), strict=True)
            results[name] = max(float((one - other).abs().max()) for one, other in pairs)
        except RuntimeError as error:
            results[name] = "refused" if "require placement changes" in str(error) else str(error)
    if rank == 0:
        print(torch.__version__, results)
        refused = {name for name, result in results.items() if result == "refused"}
        assert refused == {"Adafactor", "Rprop"}, "other optimizers are refused now"
        assert {result for name, result in results.items() if name not in refused} == {0.0}, results
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(work, nprocs=2)
PY
"$FINDINGS_PY" sharded.py
