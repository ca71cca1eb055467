#!/usr/bin/env bash
# skorch 1.4.0 (torch 2.14.1): a net that trains on (partial_fit, warm_start, or load_params with
# the optimizer and the history) makes its LRScheduler anew with `last_epoch=len(history) - 1`, also
# for step_every="batch": a schedule of batches begins again near its start. The callback counts the
# batches of the history at that moment, and hands the number to nobody. So a one-cycle or a cosine
# runs through its high rates a second time, and LinearLR ends above the rate that was asked for.
# With step_every="epoch" the same constructor applies a milestone that falls on the resume twice:
# MultiStepLR and StepLR divide by 100 in place of 10, for good. Schedules without milestones are
# right by epochs, ExponentialLR by both. Nothing is said; history shows the rates where event_name
# is given, as it is by default. No report was seen.
# Seen, 6 epochs of 4 batches in one piece and as 3 + 3. OneCycleLR, batch 13: 0.734, resumed 0.496;
# last batch 0.0, resumed 0.556. LinearLR to 1.0: at most 1.0, resumed 1.5. MultiStepLR [3], 0.1, by
# epochs: last epoch 0.1, resumed 0.01.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q skorch==1.4.0 torch==2.14.1 numpy; FINDINGS_PY=venv/bin/python
fi
cat > schedules.py <<'PY'
import sys

import numpy as np
import skorch
import torch
from skorch.callbacks import LRScheduler
from torch.optim import lr_scheduler as schedules

inputs = np.random.default_rng(0).normal(size=(40, 4)).astype("f4")
FILES = {"f_params": "parameters.pt", "f_optimizer": "optimizer.pt", "f_history": "history.json"}


def net(policy, step_every, epochs, **options):
    schedule = LRScheduler(policy, step_every=step_every, event_name="rate", **options)
    return skorch.NeuralNetRegressor(
        torch.nn.Linear, module__in_features=4, module__out_features=1, optimizer=torch.optim.SGD, lr=1.0,
        batch_size=10, max_epochs=epochs, train_split=None, verbose=0, callbacks=[("schedule", schedule)],
    )


def rates(trained, step_every):
    by_epoch = trained.history[:, "rate"] if step_every == "epoch" else trained.history[:, "batches", :, "rate"]
    return np.round(np.array(by_epoch).ravel(), 3).tolist()


def in_three_ways(policy, step_every, **options):
    """The rates of 6 epochs at once, by partial_fit after 3, and in another net that loads the files of the first 3."""
    whole = net(policy, step_every, 6, **options).fit(inputs, inputs[:, :1])
    first = net(policy, step_every, 3, **options).fit(inputs, inputs[:, :1])
    first.save_params(**FILES)
    loaded = net(policy, step_every, 3, **options).initialize()
    loaded.load_params(**FILES)
    parts = [one.partial_fit(inputs, inputs[:, :1]) for one in (first, loaded)]
    return [rates(one, step_every) for one in (whole, *parts)]


print("skorch", skorch.__version__, "torch", torch.__version__)
seen = {}
for policy, step_every, options in [
    (schedules.OneCycleLR, "batch", {"max_lr": 1.0, "total_steps": 24}),
    (schedules.OneCycleLR, "epoch", {"max_lr": 1.0, "total_steps": 6}),
    (schedules.LinearLR, "batch", {"total_iters": 6}),
    (schedules.MultiStepLR, "epoch", {"milestones": [3], "gamma": 0.1}),
    (schedules.MultiStepLR, "epoch", {"milestones": [4], "gamma": 0.1}),
    (schedules.ExponentialLR, "batch", {"gamma": 0.9}),
]:
    whole, parts, loaded = in_three_ways(policy, step_every, **options)
    assert parts == loaded and len(whole) == len(parts), "the two ways to train on differ"
    key = (policy.__name__, step_every, *options.get("milestones", ()))
    seen[key] = whole, parts
    middle = len(whole) // 2
    print(*key, "from the resume on: whole", whole[middle:], "resumed", parts[middle:])
cycle, resumed = seen["OneCycleLR", "batch"]
is_seen = (cycle[12], resumed[12], cycle[-1], resumed[-1]) == (0.734, 0.496, 0.0, 0.556)
is_seen &= [max(rates) for rates in seen["LinearLR", "batch"]] == [1.0, 1.5]
is_seen &= [rates[-1] for rates in seen["MultiStepLR", "epoch", 3]] == [0.1, 0.01]
right = [("OneCycleLR", "epoch"), ("MultiStepLR", "epoch", 4), ("ExponentialLR", "batch")]
sys.exit(not (is_seen and all(seen[key][0] == seen[key][1] for key in right)))
PY
OMP_NUM_THREADS=1 "$FINDINGS_PY" -W ignore schedules.py
