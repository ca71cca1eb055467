#!/usr/bin/env bash
# A checkpoint of timm's CheckpointSaver with its args cannot be read by torch.load with its defaults.
# timm 1.0.31, torch 2.14.1. The saver stores the argparse.Namespace of its training script, which
# weights_only refuses.
# Output: refused: argparse.Namespace
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python=${FINDINGS_PY:-}
if [ -z "$python" ]; then
  python3 -m venv venv
  python=$folder/venv/bin/python
  "$python" -m pip install -q torch==2.14.1 torchvision==0.29.1 timm==1.0.31
fi
"$python" - <<'PYTHON'
import argparse
import pickle

import torch
from timm.utils import CheckpointSaver

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
args = argparse.Namespace(model="resnet18", lr=0.1)
CheckpointSaver(model, optimizer, args, checkpoint_dir=".", recovery_dir=".").save_checkpoint(0, 0.5)
try:
    torch.load("checkpoint-0.pth.tar")
    print("read")
except pickle.UnpicklingError as error:
    is_refused = "argparse.Namespace" in str(error)
    print("refused: argparse.Namespace" if is_refused else error)
    raise SystemExit(not is_refused)
raise SystemExit(1)
PYTHON
