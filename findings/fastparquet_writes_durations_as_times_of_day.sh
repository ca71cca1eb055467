#!/usr/bin/env bash
# fastparquet 2026.9.0 (pandas 3.1.1, to_parquet(engine="fastparquet")) writes a column of timedeltas as times of the day. Parquet has no duration, and a time
# of the day is below 24 hours, which durations are not. Behind it pyarrow 26.0.1 gives the remainder of a day, polars 2.1.0 a missing value,
# both without a word; fastparquet itself reads its own file right, so a round trip shows nothing. Waiting times, lengths of stay and labels of
# survival are then another quantity, or their long and their negative ones are missing, which drops the rows that matter.
# pyarrow's writer stores the type of Arrow beside, and pyarrow and polars read that as durations. pandas 3 calls the engine deprecated.
# Seen, 1 s, -2.5 s, 30 h: fastparquet as they were; pyarrow 0:00:01, 23:59:57.5, 6:00; polars 0:00:01, null, null.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q fastparquet==2026.9.0 pandas==3.1.1 pyarrow==26.0.1 polars==2.1.0 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" -W ignore - <<'PY'
import datetime

import fastparquet
import pandas
import polars
import pyarrow
from pyarrow import parquet

STAYS = [datetime.timedelta(seconds=seconds) for seconds in (1, -2.5, 30 * 3600)]
table = pandas.DataFrame({"stay": pandas.Series(STAYS, dtype="timedelta64[us]")})


def read():
    return parquet.read_table("t.parquet")["stay"].to_pylist(), polars.read_parquet("t.parquet")["stay"].to_list()


table.to_parquet("t.parquet", engine="pyarrow")
assert read() == (STAYS, STAYS)
table.to_parquet("t.parquet", engine="fastparquet")
by_pyarrow, by_polars = read()
itself = fastparquet.ParquetFile("t.parquet").to_pandas().stay.dt.to_pytimedelta().tolist()
print(fastparquet.__version__, pyarrow.__version__, by_pyarrow, polars.__version__, by_polars)
assert itself == STAYS
first = datetime.time(0, 0, 1)
assert by_pyarrow == [first, datetime.time(23, 59, 57, 500_000), datetime.time(6)], "durations are read"
assert by_polars == [first, None, None], "long durations are read"
PY
