#!/usr/bin/env bash
# The row group's size decides which rows with NaN a filter of a parquet file gives. Writers leave NaN out of a group's smallest
# and largest value; a reader that skips groups by these two then skips the rows with NaN in a group of one value, though its
# own filter in memory keeps them. The samples of a data set change with the row_group_size of whoever wrote it.
# pyarrow 26.0.1 (filters of read_table), duckdb 2.0.1 (which also takes max(x) from them: 3.0, where NaN is its largest value);
# polars 2.1.0 keeps the rows in both. Seen, x = 1, 1, NaN, 2, 3, NaN, x != 1: pyarrow and duckdb 4 rows from one group of
# 6, and 3 rows from two groups of 3; duckdb x > 1.5: 4 and 3; polars 4 and 4.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q pyarrow==26.0.1 duckdb==2.0.1 polars==2.1.0; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import math

import duckdb
import polars
import pyarrow
import pyarrow.parquet

in_memory_table = pyarrow.table({"x": [1.0, 1.0, math.nan, 2.0, 3.0, math.nan]})
rows, largest = {}, {}
for size in (6, 3):
    pyarrow.parquet.write_table(in_memory_table, "t.parquet", row_group_size=size)
    rows[size] = {
        "pyarrow !=": len(pyarrow.parquet.read_table("t.parquet", filters=[("x", "!=", 1.0)])),
        "duckdb !=": len(duckdb.sql("from 't.parquet' where x <> 1").fetchall()),
        "duckdb >": len(duckdb.sql("from 't.parquet' where x > 1.5").fetchall()),
        "polars !=": len(polars.scan_parquet("t.parquet").filter(polars.col("x") != 1.0).collect()),
    }
    largest[size] = duckdb.sql("select max(x) from 't.parquet'").fetchall()[0][0]
in_memory = duckdb.sql("select max(x) from in_memory_table").fetchall()[0][0]
print(pyarrow.__version__, duckdb.__version__, polars.__version__, rows, largest, in_memory)
assert rows[6] == {"pyarrow !=": 4, "duckdb !=": 4, "duckdb >": 4, "polars !=": 4}
assert rows[3] == {"pyarrow !=": 3, "duckdb !=": 3, "duckdb >": 3, "polars !=": 4}, "groups with NaN are kept"
assert largest == {6: 3.0, 3: 3.0} and math.isnan(in_memory), "the largest value is another"
PY
