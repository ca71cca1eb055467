#!/usr/bin/env bash
# torch 2.14.1: functional.cross_entropy takes class weights, label smoothing, and both; under torch.vmap each alone works and both together
# raise a RuntimeError about masked_select. A loop over the samples gives the values.
# Seen: weights: ok, smoothing: ok, both: vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) ...
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import torch
from torch.nn.functional import cross_entropy

output, targets = torch.randn(5, 3), torch.tensor([0, 2, 1, 1, 0])
weights, seen = torch.tensor([1.0, 2.0, 0.5]), []
for options in ({"weight": weights}, {"label_smoothing": 0.1},
                {"weight": weights, "label_smoothing": 0.1}):
    def of_sample(row, target):
        return cross_entropy(row[None], target[None], **options)

    try:
        mapped = torch.vmap(of_sample)(output, targets)
        looped = torch.stack([*map(of_sample, output, targets)])
        seen.append("equal" if torch.allclose(mapped, looped) else "other")
    except RuntimeError as error:
        seen.append(str(error).partition("\n")[0][:80])
print(torch.__version__, seen)
assert seen[:2] == ["equal"] * 2 and "masked_select" in seen[2], "vmap takes both now"
PY
