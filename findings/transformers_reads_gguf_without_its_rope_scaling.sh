#!/usr/bin/env bash
# transformers 5.24.0 from_pretrained(gguf_file=...) leaves the scaling of rotary positions in the file: the keys llama.rope.scaling.* that
# gguf 0.19.0 writes, and the tensor rope_freqs, in which files of Llama 3.1 and later hold it, are passed over (an info line; of
# all architectures only gpt-oss has them read). The configuration says "default", the weights are right, and each position
# but the first is turned by another angle than the one that the network was trained with. Fine-tuning, evaluation and a save
# go on from that. Give from_pretrained a config= whose rope_parameters have the scaling: exact. llama.cpp reads both.
# Seen, a network with linear scaling by 4: logits off by more than 1, equal to those of the same weights without scaling.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv
  venv/bin/pip install -q transformers==5.24.0 torch==2.14.1 gguf==0.19.0 accelerate==1.15.0; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
from pathlib import Path

import gguf
import numpy
import torch
import transformers
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

PLACES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}
SIZES = dict(
    vocab_size=32, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
    max_position_embeddings=256, initializer_range=0.5, tie_word_embeddings=False,
)


def network(**scaling):
    torch.manual_seed(0)
    rope = {"rope_theta": 10000.0, "rope_type": "default", **scaling}
    return LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=rope)).eval()


def write(weights, way):
    Path(way).mkdir()
    writer = gguf.GGUFWriter(f"{way}/model.gguf", "llama")
    writer.add_name("tiny")
    writer.add_vocab_size(32)
    writer.add_context_length(256)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(16)
    writer.add_rope_freq_base(10000.0)
    if way == "keys":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(4.0)
    else:
        writer.add_tensor("rope_freqs.weight", numpy.full(8, 4.0, numpy.float32))
    for name, weight in weights.items():
        name = name.removesuffix(".weight")
        if name.endswith(("q_proj", "k_proj")):  # pairs of a head lie side by side in GGUF
            weight = weight.reshape(2, 2, 8, 32).transpose(1, 2).reshape(32, 32)
        block, short = ("blk.0.", name[15:]) if name.startswith("model.layers.0.") else ("", name)
        writer.add_tensor(f"{block}{PLACES[short]}.weight", weight.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


tokens = torch.arange(30)[None]
seen = {}
with torch.no_grad():
    scaled, plain = (network(**options)(tokens).logits for options in ({"rope_type": "linear", "factor": 4.0}, {}))
    for way in ("keys", "tensor"):
        write(network().state_dict(), way)
        loaded = AutoModelForCausalLM.from_pretrained(way, gguf_file="model.gguf", dtype=torch.float32).eval()
        logits = loaded(tokens).logits
        off = [round((logits - right).abs().max().item(), 3) for right in (scaled, plain)]
        seen[way] = (loaded.config.rope_parameters["rope_type"], off)
print(transformers.__version__, "type, and largest difference from the scaled and from the plain network:", seen)
for kind, (from_scaled, from_plain) in seen.values():
    assert kind == "default" and from_scaled > 1 and from_plain < 1e-3, "the scaling is read"
PY
