#!/usr/bin/env bash
# torchdata 0.11.0, torch 2.14.1: a StatefulDataLoader(shuffle=True, generator=...) without workers, continued from its state_dict in
# a new process, gives the right rest of its epoch and then other epochs than a program that was never stopped: the generator
# itself, from which each epoch's order is drawn, is where it was made. With workers, or without a generator of its own and the
# default one seeded alike, all epochs are the same, so a test of one resumed epoch shows nothing.
# Seen, 20 samples, stopped after 2 batches of 4: with a generator and no workers the rest is the same, epochs 2 and 3 are not;
# with 2 workers all are.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 torchdata==0.11.0 numpy; FINDINGS_PY=venv/bin/python
fi
cat > loader.py <<'PY'
import json
import sys
from pathlib import Path

import torch
from torchdata.stateful_dataloader import StatefulDataLoader

act, workers = sys.argv[1], int(sys.argv[2])
generator = torch.Generator().manual_seed(7)
loader = StatefulDataLoader(range(20), 4, shuffle=True, num_workers=workers, generator=generator)
if act == "resume":
    loader.load_state_dict(torch.load("state.pt", weights_only=False))
epochs = []
for _ in range(3):
    epochs.append([])
    for number, batch in enumerate(loader):
        epochs[-1] += batch.tolist()
        if act == "stop" and number == 1:
            torch.save(loader.state_dict(), "state.pt")
            sys.exit()
Path(f"{act}.json").write_text(json.dumps(epochs))
PY
cat > compare.py <<'PY'
import json
import sys
from pathlib import Path

whole, resumed = (json.loads(Path(f"{act}.json").read_text()) for act in ("whole", "resume"))
alike = [whole[0][8:] == resumed[0], *(one == other for one, other in zip(whole[1:], resumed[1:]))]
print(f"{sys.argv[1]} workers: rest of epoch 1, epochs 2 and 3 are the same: {alike}")
sys.exit(alike != json.loads(sys.argv[2]))
PY
for case in "0 [true,false,false]" "2 [true,true,true]"; do
  set -- $case
  for act in whole stop resume; do "$FINDINGS_PY" loader.py $act $1; done
  "$FINDINGS_PY" compare.py $1 "$2"
done
