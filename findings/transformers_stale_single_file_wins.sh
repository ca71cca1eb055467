#!/usr/bin/env bash
# from_pretrained reads the older whole file where a newer save in shards lies beside it.
# transformers 5.24.0, torch 2.14.1. save_pretrained(max_shard_size=...) leaves the model.safetensors
# of an earlier save.
# Output: read the first save: True; read the second: False
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python=${FINDINGS_PY:-}
if [ -z "$python" ]; then
  python3 -m venv venv
  python=$folder/venv/bin/python
  "$python" -m pip install -q torch==2.14.1 transformers==5.24.0
fi
"$python" - <<'PYTHON'
import torch
from transformers import GPT2Config, GPT2LMHeadModel

config = GPT2Config(n_embd=32, n_layer=1, n_head=2, n_positions=64, vocab_size=256)
model = GPT2LMHeadModel(config)
model.save_pretrained("gpt")
first = model.transformer.wte.weight.detach().clone()
with torch.no_grad():
    model.transformer.wte.weight.add_(1)
model.save_pretrained("gpt", max_shard_size="20KB")
read = GPT2LMHeadModel.from_pretrained("gpt").transformer.wte.weight
is_first, is_second = torch.equal(read, first), torch.equal(read, model.transformer.wte.weight)
print(f"read the first save: {is_first}; read the second: {is_second}")
raise SystemExit(not (is_first and not is_second))
PYTHON
