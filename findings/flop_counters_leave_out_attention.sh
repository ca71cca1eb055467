#!/usr/bin/env bash
# Counters of operations of the same attention block differ by a factor of 4, and torch's own counts no attention on a CPU. FlopCounterMode
# of torch 2.14.1 has formulas for the GPU's attention and none for the CPU's: scaled_dot_product_attention adds 0 unless it falls back to
# matrix products, as it does with dropout. An LSTM adds 0; a TransformerEncoderLayer in evaluation under no_grad, which
# takes its fast path, is 0 in all. fvcore 0.1.5.post20221221 counts multiply-adds, as "flops", without that attention, and with it
# where it is written as matrix products; thop 0.1.1.post2209072238 never does. A table that mixes them compares nothing.
# Seen, 128 tokens, 64 channels (2,097,152 multiply-adds in the layers, as many in the attention), in units of both together: torch 1.0
# (right: 2.0), written out 2.0; fvcore 0.5 and 1.0; thop 0.5 and 0.5; the layer in evaluation: torch 0.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; FINDINGS_PY=venv/bin/python
  venv/bin/pip install -q torch==2.14.1 numpy setuptools fvcore==0.1.5.post20221221 thop==0.1.1.post2209072238
fi
"$FINDINGS_PY" - <<'PY'
import logging

import thop
import torch
from fvcore.nn import FlopCountAnalysis
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

logging.disable()
TOKENS, CHANNELS = 128, 64
MULTIPLY_ADDS = 4 * TOKENS * CHANNELS**2 + 2 * TOKENS**2 * CHANNELS


class Block(nn.Module):
    def __init__(self, is_written_out):
        super().__init__()
        self.is_written_out = is_written_out
        self.inner, self.outer = nn.Linear(CHANNELS, 3 * CHANNELS), nn.Linear(CHANNELS, CHANNELS)

    def forward(self, inputs):
        queries, keys, values = self.inner(inputs).chunk(3, -1)
        if self.is_written_out:
            return self.outer((queries @ keys.transpose(1, 2)).softmax(-1) @ values)
        return self.outer(functional.scaled_dot_product_attention(queries, keys, values))


def by_torch(network):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(inputs)
    return counter.get_total_flops() / MULTIPLY_ADDS


inputs = torch.randn(1, TOKENS, CHANNELS)
counted = {}
for is_written_out in (False, True):
    block = Block(is_written_out).eval()
    by_fvcore = FlopCountAnalysis(block, inputs).total() / MULTIPLY_ADDS
    counted[is_written_out] = [by_torch(block), by_fvcore, thop.profile(block, (inputs,), verbose=False)[0] / MULTIPLY_ADDS]
layer = by_torch(nn.TransformerEncoderLayer(CHANNELS, 4, batch_first=True).eval())
print(torch.__version__, "torch, fvcore, thop:", counted, "encoder layer in evaluation:", layer)
assert counted == {False: [1.0, 0.5, 0.5], True: [2.0, 1.0, 0.5]} and layer == 0, "attention is counted otherwise"
PY
