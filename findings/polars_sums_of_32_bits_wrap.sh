#!/usr/bin/env bash
# polars 2.1.0 widens integers of 8 and 16 bits before it sums them, and leaves those of 32 bits: their sum is one of 32 bits and
# wraps, without a word, in a Series, a group_by and a lazy query; cum_sum wraps too. Counts of tokens, pixels or bytes are such
# columns: len() and value_counts() of polars itself are UInt32, and parquet files of Spark, pandas and databases hold Int32.
# mean() is right. pandas 3.1.1, pyarrow 26.0.1 and duckdb 2.0.1 sum the same column to 4294967296. Cast to Int64 first.
# Seen, four times 2**30: polars 0, in a group 0, cum_sum [1073741824, -2147483648, -1073741824, 0], the mean 1073741824.0.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q polars==2.1.0 pandas==3.1.1 pyarrow==26.0.1 duckdb==2.0.1; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import duckdb
import pandas
import polars
import pyarrow
import pyarrow.compute

counted = pyarrow.table({"tokens": pyarrow.array([2**30] * 4, pyarrow.int32()), "part": ["a"] * 4})
frame = polars.from_arrow(counted)
tokens = frame["tokens"]
wrapped = {
    "sum": tokens.sum(),
    "group": frame.group_by("part").agg(polars.sum("tokens"))["tokens"].item(),
    "lazy": frame.lazy().select(polars.sum("tokens")).collect().item(),
    "cum_sum": tokens.cum_sum().to_list(),
    "mean": tokens.mean(),
}
others = {
    "pandas": int(counted.to_pandas()["tokens"].sum()),
    "pyarrow": pyarrow.compute.sum(counted["tokens"]).as_py(),
    "duckdb": int(duckdb.sql("select sum(tokens) from counted").fetchall()[0][0]),
    "polars, Int64": tokens.cast(polars.Int64).sum(),
}
print(polars.__version__, pandas.__version__, pyarrow.__version__, duckdb.__version__, wrapped, others)
assert set(others.values()) == {2**32}
expected = {"sum": 0, "group": 0, "lazy": 0, "cum_sum": [2**30, -(2**31), -(2**30), 0], "mean": 2.0**30}
assert wrapped == expected, "sums of 32 bits are wider"
PY
