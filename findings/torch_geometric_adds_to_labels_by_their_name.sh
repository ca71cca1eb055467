#!/usr/bin/env bash
# torch_geometric 2.8.1: a batch of graphs adds an offset to an attribute whose name has "index" in it (the nodes of the graphs before)
# or "batch" (the largest value before, plus 1), so that edges point into the batch. It goes by the name alone: labels called
# class_index, numbers of samples called sample_index (also plain ints) and laboratory batches called lab_batch come out of the
# DataLoader as other labels, which depend on the neighbours; a label called y is left. batch[1] subtracts the offset again,
# so looking at single graphs shows nothing. Seen, three graphs of 3 nodes, label 0, 1, 1: y 0, 1, 1; class_index and sample_index 0, 4,
# 7; lab_batch 0, 2, 4.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 torch_geometric==2.8.1 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" -W ignore - <<'PY'
import torch
import torch_geometric
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

LABELS = [0, 1, 1]
edges = torch.tensor([[0, 1], [1, 2]])
graphs = [
    Data(
        x=torch.ones(3, 2), edge_index=edges, y=torch.tensor([label]), sample_index=label,
        class_index=torch.tensor([label]), lab_batch=torch.tensor([label]),
    )
    for label in LABELS
]
batch = next(iter(DataLoader(graphs, batch_size=3)))
labels = {name: batch[name].tolist() for name in ("y", "class_index", "sample_index", "lab_batch")}
print(torch_geometric.__version__, torch.__version__, labels, batch[1].class_index)
assert batch[1].class_index.tolist() == [1] and labels.pop("y") == LABELS
assert labels == {"class_index": [0, 4, 7], "sample_index": [0, 4, 7], "lab_batch": [0, 2, 4]}, "labels stay"
PY
