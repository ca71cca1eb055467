#!/usr/bin/env bash
# onnxruntime 1.31.1 quantize_static, with its default asymmetric activations, removes a Clip behind a quantised operation: the range that
# was seen in calibration is to take its place. A range of quantised numbers always has 0 in it, so that a lower limit above 0,
# or an upper one below, is gone: clamp(min=eps) before a logarithm, a root or a division, a smallest scale, a price that is at
# least 1. The quantised network then gives 0, -inf or nan where the float one gave the limit, without a word. Limits around 0
# are kept. The option QDQKeepRemovableActivations keeps the Clip, and so do symmetric activations (those since microsoft/onnxruntime#11660;
# no report of limits beside 0 was seen).
# Seen, products clipped to 1 ... 2, smallest value, and of the logarithm: float 1.0, 0.0; quantised 0.0, -inf; with the option 1.0, 0.0.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q onnxruntime==1.31.1 onnx==1.23.2 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

chance = numpy.random.default_rng(0)
weight, inputs = (chance.standard_normal(shape).astype("float32") for shape in ((4, 4), (64, 4)))


class Once(CalibrationDataReader):
    def __init__(self):
        self.batches = iter([{"x": inputs}])

    def get_next(self):
        return next(self.batches, None)


def write(low, high):
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["product"]),
        helper.make_node("Clip", ["product", "low", "high"], ["clipped"]),
        helper.make_node("Log", ["clipped"], ["logarithm"]),
    ]
    constants = [("weight", weight), ("low", numpy.float32(low)), ("high", numpy.float32(high))]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("x", "clipped", "logarithm")]
    graph = helper.make_graph(
        nodes, "graph", ends[:1], ends[1:], [numpy_helper.from_array(value, name) for name, value in constants]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), "float.onnx")


def smallest(path):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return [round(float(output.min()), 2) for output in session.run(None, {"x": inputs})]


def quantised(form, **options):
    quantize_static("float.onnx", "quantised.onnx", Once(), quant_format=form, extra_options=options)
    return smallest("quantised.onnx")


write(1.0, 2.0)
alone = smallest("float.onnx")
plain = [quantised(form) for form in (QuantFormat.QDQ, QuantFormat.QOperator)]
kept = quantised(QuantFormat.QDQ, QDQKeepRemovableActivations=True)
symmetric = quantised(QuantFormat.QDQ, ActivationSymmetric=True)
write(-0.5, 0.5)
around_zero = smallest("float.onnx")[0] - quantised(QuantFormat.QDQ)[0]
print(onnxruntime.__version__, "float", alone, "quantised", plain, "kept", kept, "symmetric", symmetric, "around 0:", around_zero)
assert alone == [1.0, 0.0] and plain == [[0.0, -numpy.inf]] * 2, "the lower limit holds"
assert max(abs(kept[0] - 1), abs(symmetric[0] - 1), abs(around_zero)) < 0.02, "these held"
PY
