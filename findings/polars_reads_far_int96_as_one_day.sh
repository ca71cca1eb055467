#!/usr/bin/env bash
# polars 2.1.0 reads parquet timestamps of type INT96, as Spark writes them by default, as nanoseconds. Days outside of 1677 to 2262
# do not fit, and all become 2262-04-11, without an error: "no end" (9999-12-31) and 1600-01-01 are the same day.
# Seen: {2262-04-11 23:47:16.854775807: 2, 2024-05-31: 1}. A schema of microseconds gives all three days right.
# The file is written by pyarrow without its own schema, as Spark's files have none.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q polars==2.1.0 pyarrow==26.0.1; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
from datetime import datetime

import polars
import pyarrow
from pyarrow import parquet

days = [datetime(9999, 12, 31), datetime(1600, 1, 1), datetime(2024, 5, 31)]
table = pyarrow.table({"until": pyarrow.array(days, pyarrow.timestamp("us"))})
parquet.write_table(table, "t.parquet", use_deprecated_int96_timestamps=True, store_schema=False)
plain = polars.read_parquet("t.parquet")["until"]
casts = polars.ScanCastOptions(datetime_cast="nanosecond-downcast")
schema = {"until": polars.Datetime("us")}
right = polars.scan_parquet("t.parquet", schema=schema, cast_options=casts).collect()["until"]
print(polars.__version__, plain.dtype, plain.to_list(), right.to_list())
assert plain[0] == plain[1] and plain[0].year == 2262, "it reads these days now"
assert right.to_list() == days
PY
