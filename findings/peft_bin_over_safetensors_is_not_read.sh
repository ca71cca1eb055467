#!/usr/bin/env bash
# An adapter saved as .bin into the folder of one saved as .safetensors is not read.
# peft 0.21.2, torch 2.14.1. save_pretrained(safe_serialization=False) leaves the older
# adapter_model.safetensors, which is read first.
# Output: read the first save: True; read the second: False
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python=${FINDINGS_PY:-}
if [ -z "$python" ]; then
  python3 -m venv venv
  python=$folder/venv/bin/python
  "$python" -m pip install -q torch==2.14.1 peft==0.21.2
fi
"$python" - <<'PYTHON'
import torch
from peft import LoraConfig, PeftModel, get_peft_model

base = torch.nn.Sequential(torch.nn.Linear(3, 4))
model = get_peft_model(base, LoraConfig(target_modules=["0"], r=2))
weight = model.base_model.model[0].lora_B["default"].weight
with torch.no_grad():
    weight.fill_(1)
model.save_pretrained("adapter")
with torch.no_grad():
    weight.fill_(2)
model.save_pretrained("adapter", safe_serialization=False)
read = PeftModel.from_pretrained(torch.nn.Sequential(torch.nn.Linear(3, 4)), "adapter")
values = read.base_model.model[0].lora_B["default"].weight
is_first, is_second = bool((values == 1).all()), bool((values == 2).all())
print(f"read the first save: {is_first}; read the second: {is_second}")
raise SystemExit(not (is_first and not is_second))
PYTHON
