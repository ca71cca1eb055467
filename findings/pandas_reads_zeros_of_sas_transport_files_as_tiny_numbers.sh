#!/usr/bin/env bash
# pandas 3.1.1: read_sas gives 5.397605346934028e-79 for each 0 in a SAS transport file (.xpt, the form of the health surveys of the CDC and of all data
# that is submitted to the FDA); pyreadstat 1.3.7 gives 0. The conversion from IBM floats sets an exponent for all bit patterns, also for that of zero.
# So "== 0" is false in every row, value_counts has a strange first row, rows without a habit are not found, a logarithm is -180
# instead of an error, and categories made of the numbers or of their texts are others than by pyreadstat. Training goes on: a mean
# or a scaled column is as before. An integer column is one by astype(int), which makes 0 of it. Reported in 2019 and
# 2023 (issues 30051, closed, and 50670, open). Seen, 0, 1, 2.5: pandas 5.397605346934028e-79, 1, 2.5; pyreadstat 0, 1, 2.5.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q pandas==3.1.1 pyreadstat==1.3.7 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import pandas
import pyreadstat

table = pandas.DataFrame({"DRINKS": [0.0, 1.0, 2.5]})
pyreadstat.write_xport(table, "t.xpt", file_format_version=5)
by_pandas = pandas.read_sas("t.xpt").DRINKS
by_pyreadstat = pyreadstat.read_xport("t.xpt")[0].DRINKS
print(pandas.__version__, pyreadstat.__version__, by_pandas.tolist(), by_pyreadstat.tolist())
with open("t.xpt", "rb") as file:
    assert bytes(8) + b"\x41\x10" in file.read(), "zero is stored otherwise"
assert by_pyreadstat.tolist() == [0.0, 1.0, 2.5]
assert by_pandas.tolist() == [16.0**-65, 1.0, 2.5], "zeros are zeros"
assert not (by_pandas == 0).any()
PY
