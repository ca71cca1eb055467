#!/usr/bin/env bash
# datasets 5.2.0: Dataset.from_generator keeps the rows on the disk under a hash of the function and its arguments. If the function
# reads a file, a data base or a folder that has changed since, the next program is given the old rows, without a word: a label that
# was corrected, or a day that was added, is not trained on. load_dataset("text", data_files=...) sees the change of the same file.
# An argument that tells the versions apart (a date, a checksum) makes new rows.
# Seen, two programs, the file changed between them: from_generator [1, 2, 3] and [1, 2, 3]; load_dataset [1, 2, 3] and [7, 8].
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q datasets==5.2.0; FINDINGS_PY=venv/bin/python
fi
export HF_HOME="$folder/home" HF_HUB_OFFLINE=1 HF_DATASETS_DISABLE_PROGRESS_BARS=1
cat > rows.py <<'PY'
from pathlib import Path

import datasets


def rows(path):
    for line in Path(path).read_text().splitlines():
        yield {"number": int(line)}


if __name__ == "__main__":
    generated = datasets.Dataset.from_generator(rows, gen_kwargs={"path": "numbers.txt"})
    loaded = datasets.load_dataset("text", data_files="numbers.txt", split="train")
    print(generated["number"][:], [int(text) for text in loaded["text"]])
PY
printf '1\n2\n3\n' > numbers.txt
first=$("$FINDINGS_PY" rows.py)
printf '7\n8\n' > numbers.txt
second=$("$FINDINGS_PY" rows.py)
echo "from_generator, load_dataset: $first, then $second"
[ "$first" = "[1, 2, 3] [1, 2, 3]" ] && [ "$second" = "[1, 2, 3] [7, 8]" ]
