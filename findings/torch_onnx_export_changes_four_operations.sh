#!/usr/bin/env bash
# torch 2.14.1, onnxscript 0.7.2, onnxruntime 1.31.1: torch.onnx.export(dynamo=True) writes a program that computes other values for
# four operations that torch has, and the export succeeds: scatter_reduce with "mean" keeps the last value of each place instead of
# their mean (message passing in graphs), avg_pool2d ignores divisor_override, interpolate with antialias=True and
# align_corners=True gives other pixels, logaddexp is infinite above about 88. Of more than 100 others that were compared the rest
# agrees, but for NaN, ties and rounding, or is refused. Compare an export with its network on inputs of the size that it will have.
# Seen, torch and onnxruntime: mean 2.0 and 3.0; pool 2.0 and 1.5; largest difference of interpolate above 0.01; 100.6931 and inf.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; FINDINGS_PY=venv/bin/python
  venv/bin/pip install -q torch==2.14.1 onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.31.1 numpy
fi
"$FINDINGS_PY" - <<'PY'
import onnxruntime
import torch
from torch import nn
from torch.nn import functional


class Operation(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, inputs):
        return self.function(inputs)


def mean_of_places(inputs):
    places = torch.zeros(1, 3, dtype=torch.long)
    return torch.zeros(1, 1).scatter_reduce(1, places, inputs, "mean", include_self=False)


def resized(inputs):
    return functional.interpolate(inputs, (3, 4), mode="bilinear", align_corners=True, antialias=True)


operations = {
    "scatter mean": (mean_of_places, torch.tensor([[1.0, 2.0, 3.0]])),
    "pool": (lambda inputs: functional.avg_pool2d(inputs, 2, divisor_override=3), torch.full((1, 1, 2, 2), 1.5)),
    "interpolate": (resized, torch.rand(1, 1, 5, 7, generator=torch.Generator().manual_seed(0))),
    "logaddexp": (lambda inputs: torch.logaddexp(inputs, inputs), torch.tensor([100.0])),
}
values, differences = {}, {}
for name, (function, inputs) in operations.items():
    program = torch.onnx.export(Operation(function).eval(), (inputs,), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    given = torch.from_numpy(session.run(None, {session.get_inputs()[0].name: inputs.numpy()})[0])
    expected = function(inputs)
    values[name] = (round(expected.flatten()[0].item(), 4), round(given.flatten()[0].item(), 4))
    differences[name] = (expected - given).abs().max().item()
print(torch.__version__, onnxruntime.__version__, "torch, onnxruntime:", values, differences)
assert values["scatter mean"] == (2.0, 3.0) and values["pool"] == (2.0, 1.5) and differences["interpolate"] > 0.01
assert values["logaddexp"] == (100.6931, float("inf")), "the export computes otherwise"
PY
