#!/bin/bash
# torch 2.14.1: load_state_dict of an optimizer rebuilds everything that can be iterated in the state of a parameter: a text
# becomes the repr of a generator, and a deque loses its maxlen. Seen: "<generator object ...>" and None.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python=${FINDINGS_PY:-}
if [ -z "$python" ]; then
    python3 -m venv "$folder/venv"; python=$folder/venv/bin/python
    "$python" -m pip install -q torch==2.14.1
fi
"$python" - <<'PY'
from collections import deque

import torch

weight = torch.nn.Parameter(torch.ones(1))
made = torch.optim.SGD([weight], lr=0.1)
made.state[weight] = {"mode": "slow", "recent": deque([1.0], maxlen=3)}
made.load_state_dict(made.state_dict())
text, recent = made.state[weight]["mode"], made.state[weight]["recent"]
print(text, recent.maxlen)
assert text.startswith("<generator") and recent.maxlen is None, "torch has changed"
PY
