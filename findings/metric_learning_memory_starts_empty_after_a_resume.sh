#!/usr/bin/env bash
# pytorch-metric-learning 2.9.0: the state_dict of CrossBatchMemory has the embeddings and labels of
# the queue, and not how many of them count, nor where the next batch goes: `queue_idx` and
# `has_been_filled` are plain attributes. A memory that loads its own state holds all entries and
# uses none. It begins as an empty one: the first loss compares the batch with itself alone, so that
# the loss of a resumed run jumps, and most negatives are gone until the queue has been filled
# again; with a memory of tens of thousands that is many steps. Loading raises nothing, as both
# buffers match. MoCo-like use by enqueue_mask, too. The remedy: to save the two attributes beside
# the state, and to set them after loading. No report was seen.
# Seen, NTXentLoss, 512 entries, cut after 40 of 60 steps: step 41 has 6.77 in one piece and 2.38
# resumed, among 512 and 16 entries; step 60 has 6.03 and 5.47; with the two attributes set, all 20
# losses are the same.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv
  venv/bin/pip install -q pytorch-metric-learning==2.9.0 torch==2.14.1 numpy; FINDINGS_PY=venv/bin/python
fi
cat > memory.py <<'PY'
import copy
import sys

import pytorch_metric_learning
import torch
from pytorch_metric_learning import losses
from torch import nn

KEPT_BESIDE = "queue_idx", "has_been_filled"


class Run:
    """A network, its memory and its optimizer: all that a checkpoint stores."""

    def __init__(self, is_moco):
        torch.manual_seed(0)
        self.is_moco = is_moco
        self.network = nn.Linear(8, 16)
        self.memory = losses.CrossBatchMemory(losses.NTXentLoss(), embedding_size=16, memory_size=512)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.1)
        self.parts = self.network, self.memory, self.optimizer

    def train(self, steps):
        return [self._step(torch.Generator().manual_seed(step)) for step in steps]

    def _step(self, generator):
        labels = torch.randint(0, 4, (16,), generator=generator)
        inputs = torch.randn(16, 8, generator=generator) + nn.functional.one_hot(labels, 8)
        is_key = torch.arange(16) >= 8 if self.is_moco else None
        loss = self.memory(self.network(inputs), labels, enqueue_mask=is_key)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def resumed(is_moco, begin, is_set):
    """The names in a checkpoint of the memory and the 20 losses after it, perhaps with the attributes that it lacks."""
    first = Run(is_moco)
    first.train(range(begin))
    states = copy.deepcopy([part.state_dict() for part in first.parts])
    after = Run(is_moco)
    for part, state in zip(after.parts, states):
        part.load_state_dict(state)
    if is_set:
        for name in KEPT_BESIDE:
            setattr(after.memory, name, getattr(first.memory, name))
    return list(states[1]), after.train(range(begin, begin + 20))


print("pytorch-metric-learning", pytorch_metric_learning.__version__, "torch", torch.__version__)
is_seen = True
for is_moco in False, True:
    begin = 80 if is_moco else 40  # the memory is full
    whole = Run(is_moco).train(range(begin + 20))[begin:]
    names, plain = resumed(is_moco, begin, is_set=False)
    _, with_attributes = resumed(is_moco, begin, is_set=True)
    print("enqueue_mask" if is_moco else "whole batches", "state", names)
    for name, values in ("one piece", whole), ("resumed", plain), ("with the attributes", with_attributes):
        print(f"  {name}: first {values[0]:.2f}, last {values[-1]:.2f}")
    is_seen &= names == ["embedding_memory", "label_memory"] and with_attributes == whole
    is_seen &= abs(plain[0] - whole[0]) > 1 and plain[-1] != whole[-1]
sys.exit(not is_seen)
PY
OMP_NUM_THREADS=1 "$FINDINGS_PY" -W ignore memory.py
