#!/bin/bash
# lion-pytorch 0.2.5: with decoupled_weight_decay the decay is divided by the rate of the constructor.
# A rate that is set on the group afterwards, as every scheduler does, does not change the divisor: at ten times the
# rate the weights decay ten times as much. Seen: 0.90 for a constructor's rate of 1e-2, 0.0 for one of 1e-3.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python=${FINDINGS_PY:-}
if [ -z "$python" ]; then
    python3 -m venv "$folder/venv"; python=$folder/venv/bin/python
    "$python" -m pip install -q torch==2.14.1 lion-pytorch==0.2.5
fi
"$python" - <<'PY'
import torch
from lion_pytorch import Lion

def after_one_step(rate_of_constructor):
    weight = torch.nn.Parameter(torch.ones(1))
    made = Lion([weight], lr=rate_of_constructor, weight_decay=0.1, decoupled_weight_decay=True)
    made.param_groups[0]["lr"] = 1e-2
    weight.grad = torch.zeros(1)
    made.step()
    return weight.item()

early, late = after_one_step(1e-2), after_one_step(1e-3)
print(early, late)
assert abs(early - 0.9) < 1e-6 and abs(late) < 1e-6, "lion-pytorch has changed"
PY
