#!/usr/bin/env bash
# Documents packed into one row see each other in training unless the cache is off.
# transformers 5.24.0, torch 2.14.1. position_ids that begin again keep documents apart only where no
# cache is made; use_cache is True in training mode too.
# Output: with the cache: other logits; without: the same
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
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
sizes = dict(vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2)
network = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=2)).train()
one, two = torch.randint(50, (1, 6)), torch.randint(50, (1, 5))
rows = {"input_ids": torch.cat([one, two], 1), "position_ids": torch.tensor([[*range(6), *range(5)]])}
with torch.no_grad():
    alone = network(input_ids=two, use_cache=False).logits
    by_default, without = (
        torch.allclose(network(**rows, **options).logits[:, 6:], alone, atol=1e-5)
        for options in ({}, {"use_cache": False})
    )
words = {True: "the same", False: "other logits"}
print(f"with the cache: {words[by_default]}; without: {words[without]}")
raise SystemExit(by_default or not without)
PYTHON
