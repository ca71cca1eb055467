#!/usr/bin/env bash
# tokenizers trains another WordPiece or Unigram tokenizer from the same text each time: tokens have
# other ids, and where counts are equal there are other tokens. A checkpoint beside a tokenizer that
# was trained again from its corpus reads other words, and nothing says so. WordLevel repeats, and so
# does BPE without a prefix of continuing words.
# tokenizers 0.23.3, one thread (RAYON_NUM_THREADS=1); no trainer takes a seed.
# Output: BPE: 1 tokenizer of 6 trainings, the text has 1 encoding
#         WordLevel: 1 tokenizer of 6 trainings, the text has 1 encoding
#         WordPiece: several tokenizers of 6 trainings, the text has several encodings
#         Unigram: several tokenizers of 6 trainings, the text has several encodings
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python=${FINDINGS_PY:-}
if [ -z "$python" ]; then
  python3 -m venv venv
  python=$folder/venv/bin/python
  "$python" -m pip install -q tokenizers==0.23.3
fi
cat > train.py <<'PYTHON'
import json

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

TEXT = "the quick brown fox jumps over the lazy dog and packs his box with five dozen liquor jugs"
KINDS = {
    "BPE": (models.BPE(unk_token="?"), trainers.BpeTrainer, {}),
    "WordLevel": (models.WordLevel(unk_token="?"), trainers.WordLevelTrainer, {}),
    "WordPiece": (models.WordPiece(unk_token="?"), trainers.WordPieceTrainer, {}),
    "Unigram": (models.Unigram(), trainers.UnigramTrainer, {"unk_token": "?"}),
}
trained = {}
for name, (model, trainer, options) in KINDS.items():
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    options |= {"vocab_size": 80, "special_tokens": ["?"], "show_progress": False}
    tokenizer.train_from_iterator([TEXT] * 50, trainer(**options))
    trained[name] = tokenizer.to_str(), tokenizer.encode(TEXT).ids
print(json.dumps(trained))
PYTHON
cat > compare.py <<'PYTHON'
import json
import os
import subprocess
import sys

environment = os.environ | {"RAYON_NUM_THREADS": "1"}
trainings = [
    json.loads(subprocess.check_output([sys.executable, "train.py"], env=environment))
    for _ in range(6)
]
is_as_found = True
for kind, repeats in {"BPE": 1, "WordLevel": 1, "WordPiece": 0, "Unigram": 0}.items():
    files, encodings = ({str(training[kind][part]) for training in trainings} for part in (0, 1))
    one, several = len(files) == len(encodings) == 1, min(len(files), len(encodings)) > 1
    tokenizers, ids = ("1 tokenizer", "1 encoding") if one else ("several tokenizers", "several encodings")
    print(f"{kind}: {tokenizers} of 6 trainings, the text has {ids}")
    is_as_found &= one if repeats else several
raise SystemExit(not is_as_found)
PYTHON
"$python" compare.py
