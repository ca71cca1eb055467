#!/usr/bin/env bash
# torch 2.14.1: default_collate in a worker process writes into memory of the type of the first sample; without a worker
# the batch has the common type. So 300 becomes 44 with num_workers=1 if a uint8 comes first, without a word.
# Seen: 0 workers: torch.int64 [7, 300]; 1 worker: torch.uint8 [7, 44].
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import torch
from torch.utils.data import DataLoader, Dataset


class Mixed(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return torch.tensor([300]) if index else torch.tensor([7], dtype=torch.uint8)


found = {}
for workers in (0, 1):
    (batch,) = DataLoader(Mixed(), batch_size=2, num_workers=workers)
    found[workers] = str(batch.dtype), batch.flatten().tolist()
print(torch.__version__, found)
assert found == {0: ("torch.int64", [7, 300]), 1: ("torch.uint8", [7, 44])}, "mixed types collate otherwise"
PY
