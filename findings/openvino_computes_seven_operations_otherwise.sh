#!/usr/bin/env bash
# openvino 2026.4.1 convert_model of a torch 2.14.1 network, on its CPU device with float32 as the precision: the conversion succeeds, and
# seven operations that torch has give other values. int64 is computed in 32 bits, so large ids wrap and a hash of them (ids % 1000)
# names another row of an embedding, or a negative one; div(rounding_mode="floor") of negative whole numbers rounds toward
# zero; round ignores decimals and softplus beta; logsigmoid of -150 is -inf; avg_pool2d with ceil_mode divides by cells that lie
# beyond the padding; relu and clamp make 0 of NaN, so that a broken network answers. Of about 150 that were compared most others agree,
# but for NaN, ties and whole numbers that overflow. Compare a conversion with its network on real inputs.
# Seen, torch and openvino: 777 and 1; -4 and -3; 0.4 and 0.0; 0.3466 and 0.6931; -150 and -inf; 0.25 and 0.1111; nan and 0.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 openvino==2026.4.1 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" -W ignore - <<'PY'
import openvino
import torch
from torch import nn
from torch.nn import functional


class Operation(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, inputs):
        return self.function(inputs)


operations = {
    "ids": (lambda inputs: inputs % 1000, torch.tensor([2**40 + 1])),
    "floor": (lambda inputs: torch.div(inputs, 2, rounding_mode="floor"), torch.tensor([-7], dtype=torch.int32)),
    "round": (lambda inputs: torch.round(inputs, decimals=1), torch.tensor([0.35])),
    "softplus": (lambda inputs: functional.softplus(inputs, beta=2), torch.tensor([0.0])),
    "logsigmoid": (functional.logsigmoid, torch.tensor([-150.0])),
    "pool": (lambda inputs: functional.avg_pool2d(inputs, 3, 2, 1, ceil_mode=True), torch.ones(1, 1, 4, 4)),
    "relu": (functional.relu, torch.tensor([float("nan")])),
    "gelu": (functional.gelu, torch.tensor([1.0])),
}
values = {}
for name, (function, inputs) in operations.items():
    network = Operation(function).eval()
    converted = openvino.convert_model(network, example_input=(inputs,))
    compiled = openvino.compile_model(converted, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    given = torch.from_numpy(compiled(inputs.numpy())[0].copy())
    values[name] = tuple(round(result.flatten()[-1].item(), 4) for result in (function(inputs), given))
print(torch.__version__, openvino.__version__, "torch, openvino:", values)
assert values.pop("gelu") == (0.8413, 0.8413) and str(values.pop("relu")) == "(nan, 0.0)"
assert values == {
    "ids": (777, 1), "floor": (-4, -3), "round": (0.4, 0.0), "softplus": (0.3466, 0.6931),
    "logsigmoid": (-150.0, float("-inf")), "pool": (0.25, 0.1111),
}, "a conversion computes otherwise"
PY
