#!/usr/bin/env bash
# torch 2.14.1: a seed of 64 bits is taken and reported back whole, but the CPU's generator starts from its lower 32 bits.
# Seeds that are made as `seed + (rank << 32)` or `epoch * 2**32 + worker` so give each rank, or each epoch, the same order,
# dropout and augmentation. GPUs use all 64 bits (not run). Hash such parts, or keep them below 2**32.
# Seen: 5, 5 + 2**32 and 5 + 2**60 give the same permutation and the same noise; initial_seed() differs.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import torch

SEEDS = [5, 5 + 2**32, 5 + 2**60]
orders, noises, told = set(), set(), set()
for seed in SEEDS:
    generator = torch.Generator().manual_seed(seed)
    told.add(generator.initial_seed())
    orders.add(tuple(torch.randperm(1000, generator=generator).tolist()))
    torch.manual_seed(seed)
    noises.add(tuple(torch.randn(1000).tolist()))
other = tuple(torch.randperm(1000, generator=torch.Generator().manual_seed(6)).tolist())
print(torch.__version__, f"{len(told)} seeds: {len(orders)} order, {len(noises)} noise; seed 6 has another: {other not in orders}")
assert len(told) == 3 and len(orders) == len(noises) == 1 and other not in orders, "upper bits count"
PY
