#!/usr/bin/env bash
# torch 2.14.1 on a CPU: the gradient of a row that a batch takes many times is added up in the type of the weights. In bfloat16 a sum
# stands still once it is 256 times a term, in float16 at 2048 times, so the row of a common token, of padding or of a space gets
# a small part of its gradient, and the more often it occurs the smaller the part. It holds for embedding, weight[ids], take,
# embedding_bag, and the replicate padding of pictures; index_select, gather and expand, which compute the same, add in float32.
# Autocast leaves the weights in float32 and is not affected; model.bfloat16() and half-precision weights that are loaded are.
# Seen, a row taken 4096 times with a gradient of 1: bfloat16 256, float16 2048, by index_select and gather 4096 in both.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import torch
from torch.nn import functional

ids = torch.zeros(4096, dtype=torch.long)
takes = {
    "embedding": lambda weight: functional.embedding(ids, weight),
    "weight[ids]": lambda weight: weight[ids],
    "take": lambda weight: weight.take(ids),
    "embedding_bag": lambda weight: functional.embedding_bag(ids[:, None], weight, mode="sum"),
    "pad": lambda weight: functional.pad(weight[None, None, :1], (0, 63, 0, 63), mode="replicate"),
    "index_select": lambda weight: weight.index_select(0, ids),
    "gather": lambda weight: weight.gather(0, ids[:, None]),
}
gradients = {}
for dtype in (torch.bfloat16, torch.float16, torch.float32):
    for name, take in takes.items():
        weight = torch.ones(2, 1, dtype=dtype, requires_grad=True)
        taken = take(weight)
        taken.backward(torch.ones_like(taken))
        gradients.setdefault(name, []).append(weight.grad[0].item())
print(torch.__version__, gradients)
right = {"index_select": [4096] * 3, "gather": [4096] * 3}
assert gradients == {**{name: [256, 2048, 4096] for name in takes}, **right}, "gradients are added otherwise"
PY
