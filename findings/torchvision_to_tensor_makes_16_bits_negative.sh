#!/usr/bin/env bash
# torchvision 0.29.1: to_tensor of a Pillow picture of 16 bits gives int16, so that values above 32767 become negative, and
# nothing is scaled, while a picture of 8 bits becomes floats from 0 to 1.
# Seen: torch.int16 [0, 32767, -32768, -1].
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 torchvision==0.29.1 pillow numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import numpy
import torchvision
from PIL import Image
from torchvision.transforms.functional import to_tensor

values = numpy.array([[0, 32767, 32768, 65535]], numpy.uint16)
found = to_tensor(Image.fromarray(values))
print(torchvision.__version__, found.dtype, found.flatten().tolist())
assert found.flatten().tolist() == [0, 32767, -32768, -1], "16 bits are read otherwise"
PY
