#!/usr/bin/env bash
# torch 2.14.1, CPU: the normal numbers of a seed depend on how many are drawn at once and on the memory's order. 16 and more that lie
# in a row are drawn in blocks of 16, and a rest draws the last 16 anew; fewer, or numbers in another order, come from another
# algorithm. So the noise of a batch of 17 shares one number with that of 16, noise drawn in two halves is not that of the whole,
# a network that is put into channels_last before nn.init.kaiming_normal_ begins with other weights, none the same, than one that
# is put there after it, and dropout drops other elements. Uniform numbers are a prefix of longer ones, and 16, 32, 48 normal
# ones too. Seen: of the first 16 of randn(17) 1 is one of randn(16), of randn(32) 16; of 40 drawn as 20 and 20: 4; rand: 40;
# kaiming_normal_ in channels_last: 0 of 216 weights are equal; dropout: masks differ.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import torch
from torch import nn


def drawn(draw, *sizes):
    torch.manual_seed(0)
    return torch.cat([draw(size) for size in sizes])


def alike(draw, sizes, others):
    pairs = zip(drawn(draw, *sizes).tolist(), drawn(draw, *others).tolist())
    return sum(one == other for one, other in pairs)


def in_layout(layout, fill):
    tensor = torch.ones(8, 3, 3, 3).to(memory_format=layout)
    torch.manual_seed(0)
    return fill(tensor)


counts = {
    "16 of 17": alike(torch.randn, [16], [17]),
    "16 of 32": alike(torch.randn, [16], [32]),
    "40 in halves": alike(torch.randn, [40], [20, 20]),
    "uniform 40 in halves": alike(torch.rand, [40], [20, 20]),
}
layouts = (torch.contiguous_format, torch.channels_last)
weights = [in_layout(layout, nn.init.kaiming_normal_) for layout in layouts]
masks = [in_layout(layout, nn.functional.dropout) for layout in layouts]
counts["weights"] = int((weights[0] == weights[1]).sum())
print(torch.__version__, counts, "dropout is the same:", torch.equal(*masks))
expected = {"16 of 17": 1, "16 of 32": 16, "40 in halves": 4, "uniform 40 in halves": 40, "weights": 0}
assert counts == expected and not torch.equal(*masks), "normal numbers are drawn otherwise"
PY
