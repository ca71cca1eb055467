#!/usr/bin/env bash
# An older processor_config.json wins over a preprocessor_config.json that is saved later.
# transformers 5.24.0, torch 2.14.1, torchvision 0.29.1. CLIPProcessor.save_pretrained writes the
# picture settings into processor_config.json; CLIPImageProcessor.save_pretrained writes the other
# file, and reads the first.
# Output: saved last: [0.5, 0.5, 0.5]; read: [0.1, 0.2, 0.3]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python=${FINDINGS_PY:-}
if [ -z "$python" ]; then
  python3 -m venv venv
  python=$folder/venv/bin/python
  "$python" -m pip install -q torch==2.14.1 torchvision==0.29.1 transformers==5.24.0 pillow
fi
"$python" - <<'PYTHON'
from pathlib import Path

from transformers import CLIPImageProcessor, CLIPProcessor, CLIPTokenizer

Path("vocab.json").write_text('{"<|startoftext|>": 0, "<|endoftext|>": 1, "a": 2}')
Path("merges.txt").write_text("#version: 0.2\n")
first = CLIPImageProcessor(image_mean=[0.1, 0.2, 0.3])
CLIPProcessor(first, CLIPTokenizer.from_pretrained(".")).save_pretrained("clip")
CLIPImageProcessor(image_mean=[0.5, 0.5, 0.5]).save_pretrained("clip")
mean = list(CLIPImageProcessor.from_pretrained("clip").image_mean)
print(f"saved last: [0.5, 0.5, 0.5]; read: {mean}")
raise SystemExit(mean != [0.1, 0.2, 0.3])
PYTHON
