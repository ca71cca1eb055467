#!/usr/bin/env bash
# torch 2.14.1: torch.save writes over a file in place, and tensors that torch.load(mmap=True) gave from it are that file:
# the best weights that were read before the next save become the next ones, also as parameters of a network that took them with
# load_state_dict(assign=True), without an error as long as sizes are the same. A save to another name that is then moved
# there (os.replace), as safetensors.torch.save_file does, leaves them. Seen: sums 0.0, then 1000.0; with os.replace 0.0.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import os

import torch


def sum_after(is_moved):
    torch.save({"weight": torch.zeros(1, 1000), "bias": torch.zeros(1)}, "best.pt")
    network = torch.nn.Linear(1000, 1)
    network.load_state_dict(torch.load("best.pt", mmap=True), assign=True)
    name = "next.pt" if is_moved else "best.pt"
    torch.save({"weight": torch.ones(1, 1000), "bias": torch.zeros(1)}, name)
    os.replace(name, "best.pt")
    return network.weight.sum().item()


written_over, moved = sum_after(False), sum_after(True)
print(torch.__version__, "written over:", written_over, "moved there:", moved)
assert (written_over, moved) == (1000.0, 0.0), "mapped tensors stay as they were read"
PY
