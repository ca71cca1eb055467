#!/usr/bin/env bash
# datasets 5.2.0 with_format("torch") or ("numpy"): a column of whole numbers becomes float32 in every batch in which one of them is
# missing, so ids above 16,777,216 beside a missing one become other ids, and NaN stands for the missing one. Batches without
# a missing one, and single rows, are exact and int64: what a sample is depends on its neighbours, thus on the order and the size
# of batches. Lists of numbers with a missing one are rounded alike. uint64 hashes turn negative. Without a format all are exact.
# Seen, 16777217 alone or in a batch of whole numbers: itself; beside a missing one 16777216.0; 2**63 + 1: -9223372036854775807.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 datasets==5.2.0 numpy; FINDINGS_PY=venv/bin/python
fi
export HF_HOME=$folder/home HF_HUB_OFFLINE=1
"$FINDINGS_PY" - <<'PY'
import datasets
import numpy
import pyarrow
import torch

columns = {
    "id": pyarrow.array([16777217, 16777219, None, 3]),
    "ids": pyarrow.array([[16777217, 1], [16777219, 2], [16777219, None], [3, 4]]),
    "hash": pyarrow.array([2**63 + 1, 1, 2, 3], pyarrow.uint64()),
}
rows = datasets.Dataset(pyarrow.table(columns))
with_torch, with_numpy = rows.with_format("torch"), rows.with_format("numpy")
batches = {size: with_torch[:size]["id"] for size in (2, 3)}
print(datasets.__version__, with_torch[0]["id"], batches, with_torch[1:3]["ids"], with_numpy[:3]["id"], with_torch[0]["hash"])
assert rows[:3]["id"] == [16777217, 16777219, None] and rows[0]["hash"] == 2**63 + 1
assert with_torch[0]["id"].dtype == batches[2].dtype == torch.int64 and batches[2].tolist() == [16777217, 16777219]
assert batches[3].dtype == torch.float32 and batches[3][:2].tolist() == [16777216.0, 16777220.0], "ids are exact"
assert with_numpy[:3]["id"].dtype == numpy.float32 and with_torch[1:3]["ids"][1, 0].item() == 16777220.0
assert with_torch[0]["hash"].item() == -(2**63) + 1, "hashes are positive"
PY
