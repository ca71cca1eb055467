#!/usr/bin/env bash
# torch 2.14.1: clip_grad_norm_ of float16 gradients computes their norm in float16, which ends at 65504. A gradient of finite values whose
# norm is above it (200,000 values of 150) is multiplied by 1 / inf: every gradient of the network becomes 0, those in float32
# too, and the step trains nothing, or with momentum and decay something else. The norm that is returned is inf, which a look
# for overflow in the gradients does not see. bfloat16 and float32 are right; error_if_nonfinite=True raises. That an infinite norm
# clips to 0 is known (pytorch/pytorch#46849), and so that Burn does alike with the square (tracel-ai/burn#5699).
# Seen, norm after clipping to 1: float16 0.0 (norm inf), beside it a float32 gradient 0.0; bfloat16 and float32 1.0.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import torch
from torch import nn


def clipped(dtype):
    large, small = nn.Parameter(torch.zeros(200_000, dtype=dtype)), nn.Parameter(torch.zeros(4))
    large.grad, small.grad = torch.full_like(large, 150.0), torch.full_like(small, 30_000.0)
    assert large.grad.isfinite().all() and small.grad.isfinite().all()
    norm = nn.utils.clip_grad_norm_([large, small], 1.0).item()
    whole = torch.cat([large.grad.float(), small.grad]).norm().item()
    return norm, round(whole, 1), small.grad.abs().max().item() == 0


seen = {str(dtype): clipped(dtype) for dtype in (torch.float16, torch.bfloat16, torch.float32)}
print(torch.__version__, "norm, norm when clipped to 1, whether the float32 gradient is 0:", seen)
assert seen.pop("torch.float16") == (float("inf"), 0.0, True), "the norm of float16 gradients is finite"
assert {(whole, is_zero) for _, whole, is_zero in seen.values()} == {(1.0, False)}, "these were right"
PY
