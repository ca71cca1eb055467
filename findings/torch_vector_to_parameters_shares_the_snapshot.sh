#!/usr/bin/env bash
# torch 2.14.1: nn.utils.vector_to_parameters makes the parameters views of the vector. The best weights, kept as a vector and
# put back by it, so change with each further step: going back to them a second time goes back to the last weights.
# parameters_to_vector copies; load_state_dict copies too. Seen: the snapshot moved by 1.0 after one step of rate 1.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

model = nn.Linear(2, 2)
best = parameters_to_vector(model.parameters()).detach().clone()
as_it_was = best.clone()
vector_to_parameters(best, model.parameters())  # back to the best weights, and on
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
moved = float((best - as_it_was).abs().max())
print(torch.__version__, "the snapshot moved by", moved)
assert moved == 1.0, "the vector is copied"
PY
