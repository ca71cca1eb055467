#!/usr/bin/env bash
# polars 2.1.0 casts a time of day to text without its fraction of a second, so that two times have one text;
# a datetime keeps its fraction in the same cast, and write_csv keeps the time's.
# Seen: ['01:02:03', '01:02:03'] for 01:02:03.5 and 01:02:03.75; dt.to_string("%H:%M:%S%.f") keeps them.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q polars==2.1.0; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
from datetime import datetime, time

import polars

times = polars.Series([time(1, 2, 3, 500_000), time(1, 2, 3, 750_000)])
moments = polars.Series([datetime.combine(datetime(2024, 1, 1), each) for each in times])
texts = times.cast(polars.String).to_list()
print(polars.__version__, texts, moments.cast(polars.String).to_list())
assert texts == ["01:02:03", "01:02:03"], "the cast keeps the fraction now"
assert len({*moments.cast(polars.String)}) == 2
assert len({*times.dt.to_string("%H:%M:%S%.f")}) == 2
PY
