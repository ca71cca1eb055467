#!/usr/bin/env bash
# Texts such as 1_23 and 12_3 (batch and place, region and district) are numbers for Python, so for numpy.genfromtxt, for
# astype(int) of arrays of texts and of pandas columns: both are 123, one feature and one class. numpy.loadtxt, pandas.read_csv,
# pandas.to_numeric, polars and duckdb refuse them or keep the text, so the answer depends on who reads.
# numpy 2.4.6, pandas 3.1.1. Seen: genfromtxt [123.0, 123.0], array [123, 123], column [123, 123]; read_csv ['1_23', '12_3'].
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q numpy==2.4.6 pandas==3.1.1; FINDINGS_PY=venv/bin/python
fi
printf 'code\n1_23\n12_3\n' > codes.csv
"$FINDINGS_PY" - <<'PY'
import numpy
import pandas

found = {
    "genfromtxt": numpy.genfromtxt("codes.csv", skip_header=1).tolist(),
    "array": numpy.array(["1_23", "12_3"]).astype(int).tolist(),
    "column": pandas.read_csv("codes.csv")["code"].astype(int).tolist(),
    "read_csv": pandas.read_csv("codes.csv")["code"].tolist(),
}
refused = []
for reader in (lambda: numpy.loadtxt("codes.csv", skiprows=1), lambda: pandas.to_numeric(pandas.Series(["1_23"]))):
    try:
        reader()
    except ValueError as error:
        refused.append(str(error))
print(numpy.__version__, pandas.__version__, found, len(refused), "refused")
assert found == {"genfromtxt": [123, 123], "array": [123, 123], "column": [123, 123], "read_csv": ["1_23", "12_3"]}
assert len(refused) == 2, "underscores are read otherwise"
PY
