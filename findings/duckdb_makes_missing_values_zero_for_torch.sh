#!/usr/bin/env bash
# duckdb 2.0.1: the tensors of a query's .torch() have 0 or False where the table has NULL, for all types, without a word.
# fetchnumpy() of the same query gives masked arrays, whose mask torch.from_numpy and numpy.asarray drop; .df() gives NaN.
# Say `coalesce`, or filter, in the query. Seen: [1, 0, 3], [1.5, 0.0, 3.0], [True, False, True]; .df() has 1 NaN.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q duckdb==2.0.1 torch==2.14.1 numpy pandas==3.1.1; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import duckdb

found = {}
for kind, rows in {"int": "(1), (NULL), (3)", "float": "(1.5), (NULL), (3)", "bool": "(true), (NULL), (true)"}.items():
    query = duckdb.sql(f"select a::{kind} as a from (values {rows}) t(a)")
    found[kind] = query.torch()["a"].tolist()
missing = int(duckdb.sql("select a::float as a from (values (1.5), (NULL)) t(a)").df()["a"].isna().sum())
print(duckdb.__version__, found, ".df() has", missing, "NaN")
assert found == {"int": [1, 0, 3], "float": [1.5, 0.0, 3.0], "bool": [True, False, True]} and missing == 1, "NULL is told"
PY
