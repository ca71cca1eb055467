#!/usr/bin/env bash
# torch 2.14.1: an nn.TransformerEncoder with src_key_padding_mask, in evaluation and without
# gradients, computes by nested tensors and returns 0 at each position of the padding. In training,
# and in evaluation with gradients, these positions have the values of a whole layer. A network that
# pools over all positions is thus another function in evaluation: the mean of a short sequence
# shrinks with its padding, and a maximum is at least 0 there. The validation loss jumps, training
# runs on.
# Seen, 3 of 8 positions valid: mean over positions moves by 1.12 to 1.51 between with and without
# gradients, the valid positions by less than 1e-5; enable_nested_tensor=False: by less than 1e-5
# all. Training equals evaluation with gradients.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" -W ignore - <<'PY'
import sys

import torch
from torch import nn

torch.manual_seed(0)
inputs = torch.randn(4, 8, 16)
padding = (torch.arange(8) > 2).expand(4, 8).clone()
padding[0] = False  # the longest sequence is whole


def differences(**options):
    """Between evaluation with and without gradients: of valid positions, and of means over all positions."""
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, **options).eval()
    # other offsets than 0 in the last norm, as training gives it
    nn.init.normal_(encoder.layers[-1].norm2.bias)
    with_gradients = encoder(inputs, src_key_padding_mask=padding).detach()
    in_training = encoder.train()(inputs, src_key_padding_mask=padding)
    assert torch.allclose(in_training, with_gradients, atol=1e-5)  # no dropout
    encoder.eval()
    with torch.inference_mode():
        without = encoder(inputs, src_key_padding_mask=padding)
    moved = (with_gradients - without).abs()
    means = (with_gradients.mean(1) - without.mean(1)).abs().amax(1)[1:]
    return float(moved[~padding].max()), means, without[padding]


valid, means, at_padding = differences()
print(torch.__version__, f"valid positions differ by {valid:.1e}, means by {means.min():.2f} to {means.max():.2f}")
print("values at the padding without gradients:", at_padding.unique().tolist())
plain_valid, plain_means, _ = differences(enable_nested_tensor=False)
print(f"enable_nested_tensor=False: valid positions {plain_valid:.1e}, means {plain_means.max():.1e}")
sys.exit(not (valid < 1e-5 and means.min() > 0.1 and at_padding.unique().tolist() == [0] and plain_means.max() < 1e-5))
PY
