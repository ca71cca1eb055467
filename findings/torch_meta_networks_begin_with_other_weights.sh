#!/usr/bin/env bash
# torch 2.14.1, torchvision 0.29.1: a network built on the meta device, given memory by to_empty and initialised by each
# module's reset_parameters, does not have the distribution of one that is built as usual, and nothing says so: what a
# constructor does with nn.init is lost, since it does nothing on meta. Seen: resnet18: 20 convolutions with another spread
# (conv1.weight 0.025 -> 0.048); vit: class_token, positions and in_proj_weight are never written (memory as it was), and
# the head, which begins with zeros, is random; torch's own TransformerEncoderLayer: in_proj_weight and in_proj_bias are
# never written, out_proj.bias is random instead of 0.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 torchvision==0.29.1 numpy; FINDINGS_PY=venv/bin/python
fi
cat > meta.py <<'PY'
import math

import torch
import torchvision
from torch import nn


def differing(make):
    """The parameters with another spread, and those that were never written."""
    torch.manual_seed(0)
    usual = make()
    with torch.device("meta"):
        network = make()
    network.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(math.nan)  # in place of what the memory had
    for module in network.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    unwritten, others = [], {}
    for (name, one), other in zip(usual.named_parameters(), network.parameters(), strict=True):
        spreads = [tensor.std().item() for tensor in (one, other)]
        if other.isnan().all():
            unwritten.append(name)
        elif abs(spreads[0] - spreads[1]) > 0.2 * max(spreads):
            others[name] = [round(spread, 3) for spread in spreads]
    return unwritten, others


print(torch.__version__, torchvision.__version__)
unwritten, others = differing(torchvision.models.resnet18)
print("resnet18:", len(others), "of another spread;", "conv1.weight", others["conv1.weight"])
assert not unwritten and len(others) == 20 and all("bias" not in name for name in others)

vit = lambda: torchvision.models.VisionTransformer(32, 8, 2, 2, 64, 128, num_classes=5)
unwritten, others = differing(vit)
print("vit: never written:", unwritten, "another spread:", others)
assert {"class_token", "encoder.pos_embedding"} < {*unwritten} and "heads.head.weight" in others

unwritten, others = differing(lambda: nn.TransformerEncoderLayer(64, 2))
print("TransformerEncoderLayer: never written:", unwritten, "another spread:", others)
assert unwritten == ["self_attn.in_proj_weight", "self_attn.in_proj_bias"]
assert others["self_attn.out_proj.bias"][0] == 0 < others["self_attn.out_proj.bias"][1]
PY
"$FINDINGS_PY" meta.py
