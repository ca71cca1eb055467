#!/usr/bin/env bash
# pyarrow 26.0.1 writes a column of texts as folders, site=007 and site=7 (`write_to_dataset`), and
# reads it back as whole numbers: both are 7. Its own round trip merges them, and no file says that
# the column was of texts. polars 2.1.0 reads the same numbers; DuckDB keeps the texts, as soon as
# one of them would change; datasets 5.2.0 leaves the column out, pandas 3.1.1, which reads by
# pyarrow, raises. So patients, sites or speakers with zeros in their names (DICOM, ISO and postal
# codes) become one: groups that a split should keep apart are joined, and an identifier of another
# table is missed.
# Seen, four rows of 007, 7, 010, 10: pyarrow [7, 7, 10, 10], polars [7, 7, 10, 10], DuckDB ['007',
# '010', '10', '7'].
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv
  venv/bin/pip install -q pyarrow==26.0.1 polars==2.1.0 duckdb==2.0.1 pandas==3.1.1 datasets==5.2.0
  FINDINGS_PY=venv/bin/python
fi
HF_HOME="$folder/home" "$FINDINGS_PY" -W ignore - <<'PY' 2>/dev/null
import sys

import datasets
import duckdb
import pandas
import polars
import pyarrow
from pyarrow import parquet

written = ["007", "7", "010", "10"]
parquet.write_to_dataset(pyarrow.table({"value": [1.0, 2.0, 3.0, 4.0], "site": written}), "table", partition_cols=["site"])
by_pyarrow = sorted(parquet.read_table("table")["site"].to_pylist())
by_polars = sorted(polars.read_parquet("table/**/*.parquet", hive_partitioning=True)["site"].to_list())
rows = duckdb.sql("select site from read_parquet('table/*/*.parquet', hive_partitioning=true)").fetchall()
by_duckdb = sorted(site for (site,) in rows)
columns = datasets.load_dataset("parquet", data_files="table/**/*.parquet", split="train").column_names
try:
    by_pandas = [*pandas.read_parquet("table")["site"]]
except ValueError as error:
    by_pandas = error
print(f"pyarrow {pyarrow.__version__}: {by_pyarrow}; polars {polars.__version__}: {by_polars}")
print(f"DuckDB {duckdb.__version__}: {by_duckdb}; datasets {datasets.__version__}: {columns}; pandas: {by_pandas}")
numbers = [7, 7, 10, 10]
sys.exit(not (by_pyarrow == by_polars == numbers and by_duckdb == sorted(written) and columns == ["value"]
              and isinstance(by_pandas, ValueError)))
PY
