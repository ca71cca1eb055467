#!/usr/bin/env bash
# tokenizers 0.23.3, transformers 5.24.0: the dropout of a BPE model, which splits words at random while a network is trained, is
# saved in tokenizer.json and is on in whatever loads it, AutoTokenizer included, which neither shows nor has an option for it.
# A served model then reads another text at each call, and a score differs from one evaluation to the next. No seed of Python,
# NumPy or torch repeats it. tokenizer.model.dropout = None before the last save.
# Seen, one text encoded 20 times: several encodings by Tokenizer and by AutoTokenizer, also with equal seeds; 1 without dropout.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q tokenizers==0.23.3 transformers==5.24.0 torch==2.14.1; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import tokenizers
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

TEXT = "the lowest newest widest lower newer"
trained = Tokenizer(models.BPE(dropout=0.3))
trained.pre_tokenizer = pre_tokenizers.Whitespace()
trained.train_from_iterator([TEXT] * 20, trainers.BpeTrainer(vocab_size=60))


def encodings(dropout):
    trained.model.dropout = dropout
    trained.save("tokenizer.json")
    PreTrainedTokenizerFast(tokenizer_object=trained).save_pretrained("folder")
    loaded, auto = Tokenizer.from_file("tokenizer.json"), AutoTokenizer.from_pretrained("folder")
    seen = set(), set()
    for _ in range(20):
        torch.manual_seed(0)
        seen[0].add(tuple(loaded.encode(TEXT).ids))
        seen[1].add(tuple(auto(TEXT)["input_ids"]))
    return [len(ids) for ids in seen]


on, off = encodings(0.3), encodings(None)
print(tokenizers.__version__, "encodings of 20 by Tokenizer and AutoTokenizer:", on, "without dropout:", off)
assert min(on) > 1 and off == [1, 1], "a loaded tokenizer repeats"
PY
