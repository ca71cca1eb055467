#!/usr/bin/env bash
# datasets 5.2.0: load_dataset of several Parquet files takes the class names of the first file for all of them. If two files, or the
# files of two splits, were written with another order of the same classes (two runs, two people, names in order of appearance), the
# numbers of the others stay and mean other classes: a cat is a dog, in training or in the test set, without a word. The names of
# each file are in its Parquet schema. concatenate_datasets and interleave_datasets of the same two data sets refuse them,
# and Dataset.from_parquet of one file alone has its own names: read file by file, and align_labels_with_mapping.
# Seen, ["cat", "dog"] in one file, ["dog", "cat"] in the other: in the second, in one split and as a split of its own, the text
# "cat" has the label dog and "dog" the label cat; read alone each has its own; both joins refuse.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q datasets==5.2.0; FINDINGS_PY=venv/bin/python
fi
export HF_DATASETS_CACHE="$folder/cache" HF_HOME="$folder/home"
"$FINDINGS_PY" - <<'PY'
import datasets
from datasets import ClassLabel, Dataset, Features, Value

datasets.disable_progress_bars()
parts = []
for number, names in enumerate((["cat", "dog"], ["dog", "cat"])):
    features = Features({"text": Value("string"), "label": ClassLabel(names=names)})
    parts.append(Dataset.from_dict({"text": names, "label": [0, 1]}, features=features))
    parts[-1].to_parquet(f"{number}.parquet")


def named(part):
    label = part.features["label"]
    return {row["text"]: label.int2str(row["label"]) for row in part}


def is_refused(join):
    try:
        join(parts)
    except ValueError:
        return True
    return False


together = datasets.load_dataset("parquet", data_files=["0.parquet", "1.parquet"], split="train")
splits = datasets.load_dataset("parquet", data_files={"train": "0.parquet", "test": "1.parquet"})
alone = Dataset.from_parquet("1.parquet")
refused = [is_refused(datasets.concatenate_datasets), is_refused(datasets.interleave_datasets)]
print(datasets.__version__, "together", named(together), "test", named(splits["test"]), "alone", named(alone), refused)
swapped, right = {"cat": "dog", "dog": "cat"}, {"cat": "cat", "dog": "dog"}
assert named(together) == named(splits["test"]) == swapped, "class names of each file are kept"
assert named(splits["train"]) == named(alone) == right and refused == [True, True], "other names now"
PY
