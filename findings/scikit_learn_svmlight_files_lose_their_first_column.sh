#!/usr/bin/env bash
# scikit-learn 1.9.1 reads another matrix from an svmlight file than it has written: dump_svmlight_file numbers columns from 0, and
# load_svmlight_file takes a file without a column 0 for one that counts from 1. That is a file whose first feature is zero in
# all rows, as a small test set of sparse features is: its columns are shifted by one against the training set, and with
# n_features=, which is there to keep both alike, the shape is right and the shift is not seen. zero_based=True on both sides.
# Seen: [[0, 1, 2], [0, 0, 3]] comes back as [[1, 2], [0, 3]], with n_features=3 as [[1, 2, 0], [0, 3, 0]].
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q scikit-learn==1.9.1; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import sklearn
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

features = [[0.0, 1.0, 2.0], [0.0, 0.0, 3.0]]
dump_svmlight_file(features, [0, 1], "test.svm")
options = {"default": {}, "n_features": {"n_features": 3}, "zero_based": {"n_features": 3, "zero_based": True}}
read = {name: load_svmlight_file("test.svm", **given)[0].toarray().tolist() for name, given in options.items()}
print(sklearn.__version__, read)
assert read["zero_based"] == features
assert read["default"] == [[1, 2], [0, 3]] and read["n_features"] == [[1, 2, 0], [0, 3, 0]], "columns are kept"
PY
