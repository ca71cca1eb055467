#!/usr/bin/env bash
# albumentations 2.0.8, the last release under MIT: a Compose without seed= keeps a NumPy generator
# of its own, made when it is constructed. Each worker of a torch DataLoader begins with a copy of
# it. So samples in different workers get the same changes, and, without persistent_workers, each
# epoch repeats those of the first: the more workers, the less augmentation. With seed= a Compose is
# seeded anew in a worker from that seed alone: as many copies, and the same in each run.
# num_workers=0 draws a new change for each sample. Nothing says so; the pictures still vary, as the
# order is shuffled.
# Seen, 2 workers, 8 samples, 3 epochs: 24 different changes without workers, 4 with them, seeded or
# not.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q albumentations==2.0.8 torch==2.14.1; FINDINGS_PY=venv/bin/python
fi
cat > workers.py <<'PY'
import sys

import albumentations
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Changed(Dataset):
    """The sum of a grey picture after a random change, which tells the changes apart."""

    def __init__(self, seed):
        self.transform = albumentations.Compose([albumentations.GaussNoise(p=1.0)], seed=seed)

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return int(self.transform(image=np.full((32, 32, 3), 100, np.uint8))["image"].sum())


def number_of_changes(workers, seed=None):
    loader = DataLoader(Changed(seed), batch_size=2, num_workers=workers)
    return len({value for _ in range(3) for batch in loader for value in batch.tolist()})


alone, beside, seeded = number_of_changes(0), number_of_changes(2), number_of_changes(2, seed=7)
print(albumentations.__version__, f"changes of 24 samples: {alone} without workers, {beside} with two, {seeded} with a seed")
sys.exit(not (alone == 24 and beside == seeded == 4))
PY
NO_ALBUMENTATIONS_UPDATE=1 OMP_NUM_THREADS=1 "$FINDINGS_PY" -W ignore workers.py
