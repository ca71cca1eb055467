#!/usr/bin/env bash
# peft 0.21.2: OFT on a Conv2d does not begin as the network that it adapts. It turns the input in patches and puts them together by
# fold, which adds up the patches that overlap: a pixel of a 3x3 kernel is counted up to 9 times, one in a corner once. From the
# first step on another network is trained, on inputs that are brighter in the middle; merge_and_unload multiplies the kernel
# by the rotation alone, and gives the network without that factor, other than the one that was trained and measured. A 1x1 kernel
# and Linear layers are right, and so is BOFT on the same convolution. No report of it was seen.
# Seen, a kernel of ones on a picture of ones, without training: 81, and 9 merged and without adapter; BOFT 9; 1x1: 1 in all.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q peft==0.21.2 torch==2.14.1; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import peft
import torch
from torch import nn


class Picture(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = nn.Conv2d(4, 1, size, padding=size // 2, bias=False)
        nn.init.constant_(self.layer.weight, 0.25)

    def forward(self, image):
        return self.layer(image)


picture = torch.ones(1, 4, 7, 7)


def middles(size, config):
    bare = Picture(size)
    before = bare(picture)
    adapted = peft.get_peft_model(bare, config).eval()
    outputs = [before, adapted(picture), adapted.merge_and_unload()(picture)]
    return [round(output[0, 0, 3, 3].item(), 3) for output in outputs]


with torch.no_grad():
    oft = middles(3, peft.OFTConfig(target_modules=["layer"], r=0, oft_block_size=4))
    pointwise = middles(1, peft.OFTConfig(target_modules=["layer"], r=0, oft_block_size=4))
    boft = middles(3, peft.BOFTConfig(target_modules=["layer"], boft_block_size=4))
print(peft.__version__, "without, with adapter, merged: OFT", oft, "OFT 1x1", pointwise, "BOFT", boft)
assert oft == [9.0, 81.0, 9.0], "an adapter that is new changes nothing"
assert pointwise == [1.0, 1.0, 1.0] and boft == [9.0, 9.0, 9.0], "these changed nothing"
PY
