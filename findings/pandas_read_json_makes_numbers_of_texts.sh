#!/usr/bin/env bash
# pandas 3.1.1 read_json makes numbers of a column of JSON texts if all of them can be read as numbers: "007" and "7" become the same
# id, "1e3" and "1000" the same code, "nan" a missing value, and ids of 17 digits beside a missing one are rounded. It
# depends on the other rows, so with chunksize one chunk has the number 7 where the next has the text "007", and another file of the
# same data set has another type. What to_json wrote is not what read_json reads. dtype=False or engine="pyarrow" keep the
# texts, as polars 2.1.0 and datasets 5.2.0 do. Seen, ids 7 and 7; codes 1000.0 and 1000.0; 12345678901234568 for
# 12345678901234567; chunks of two lines: 7, 7, then "007", "x".
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q pandas==3.1.1 pyarrow==26.0.1 polars==2.1.0 datasets==5.2.0; FINDINGS_PY=venv/bin/python
fi
export HF_HOME=$folder/home HF_HUB_OFFLINE=1
"$FINDINGS_PY" - <<'PY'
import json
from pathlib import Path

import datasets
import pandas
import polars

columns = {"id": ["007", "7"], "code": ["1e3", "1000"], "long": ["12345678901234567", None], "text": ["nan", "1"]}
rows = [dict(zip(columns, values)) for values in zip(*columns.values())]
Path("t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
read = pandas.read_json("t.jsonl", lines=True).to_dict("list")
others = {
    "dtype=False": pandas.read_json("t.jsonl", lines=True, dtype=False).astype(object).to_dict("list"),
    "polars": polars.read_ndjson("t.jsonl").to_dict(as_series=False),
    "datasets": datasets.load_dataset("json", data_files="t.jsonl", split="train")[:],
}
Path("c.jsonl").write_text("".join(json.dumps({"id": value}) + "\n" for value in ("007", "7", "007", "x")))
chunks = [chunk["id"].tolist() for chunk in pandas.read_json("c.jsonl", lines=True, chunksize=2)]
print(pandas.__version__, polars.__version__, datasets.__version__, read, others, chunks)
assert others["polars"] == others["datasets"] == columns
assert {name: others["dtype=False"][name] for name in ("id", "code", "text")} == {
    name: columns[name] for name in ("id", "code", "text")
}
assert read["id"] == [7, 7] and read["code"] == [1000.0, 1000.0] and read["text"][0] != read["text"][0], "texts stay"
assert int(read["long"][0]) == 12345678901234568 and chunks == [[7, 7], ["007", "x"]], "texts stay"
PY
