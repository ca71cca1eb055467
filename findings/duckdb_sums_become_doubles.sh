#!/usr/bin/env bash
# duckdb 2.0.1: sum of integers is a HUGEINT, which parquet has no type for, so COPY TO parquet writes it as a double, without a word.
# Sums beyond 2^53 are rounded: 9007199254740993 comes back as 9007199254740992. A cast to BIGINT keeps it.
# Seen: sum -> DOUBLE 9007199254740992.0, sum::BIGINT -> 9007199254740993.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q duckdb==2.0.1; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import duckdb

query = "select sum(i) as total, sum(i)::bigint as whole from (values (9007199254740992), (1)) t(i)"
print(duckdb.__version__, duckdb.sql(query).fetchall())
duckdb.sql(f"copy ({query}) to 't.parquet' (format parquet)")
back = duckdb.sql("select total, typeof(total), whole from 't.parquet'").fetchall()
print(back)
assert back == [(9007199254740992.0, "DOUBLE", 9007199254740993)], "the sum keeps its value now"
PY
