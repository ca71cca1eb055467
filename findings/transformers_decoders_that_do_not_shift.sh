#!/usr/bin/env bash
# transformers 5.24.0: AutoModelForCausalLM shifts the labels by one for GPT-2, and not for XLNet and BART, whose loss compares each output with
# the label of its own place. With labels = tokens, as for GPT-2, these learn to copy the token that they read.
# Seen: gpt2 next, bart own, xlnet own.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q transformers==5.24.0 torch==2.14.1; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import torch
import transformers
from torch.nn.functional import cross_entropy

small = {
    "gpt2": {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16},
    "bart": {"d_model": 16, "decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 16},
    "xlnet": {"d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 16},
}
tokens, seen = torch.randint(5, 40, (2, 8)), {}
for name, sizes in small.items():
    config = transformers.AutoConfig.for_model(name, vocab_size=50, **sizes)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    output = model(input_ids=tokens, labels=tokens)
    own = cross_entropy(output.logits.flatten(0, 1), tokens.flatten())
    following = cross_entropy(output.logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    fits = {"own": own, "next": following}
    seen[name] = [key for key, value in fits.items() if torch.isclose(value, output.loss)]
print(transformers.__version__, seen)
assert seen == {"gpt2": ["next"], "bart": ["own"], "xlnet": ["own"]}, "another shift now"
PY
