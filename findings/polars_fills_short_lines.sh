#!/usr/bin/env bash
# polars 2.1.0 reads a CSV line with too few values, fills it with null, and says nothing; a line with too many is an error.
# A file that was cut, or a line without its delimiter, shifts nothing but loses values. No option refuses it:
# count the delimiters of a file without quotes before reading it.
# Seen: [(1, 2, 3), (4, None, None), (7, 8, 9)], also with ignore_errors=False and truncate_ragged_lines=False.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q polars==2.1.0; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import polars

found = polars.read_csv(b"a,b,c\n1,2,3\n4\n7,8,9\n", ignore_errors=False).rows()
print(polars.__version__, found)
assert found == [(1, 2, 3), (4, None, None), (7, 8, 9)], "a short line is no longer filled"
try:
    polars.read_csv(b"a,b,c\n1,2,3\n4,5,6,7\n")
except polars.exceptions.ComputeError as error:
    print("too many values:", str(error).splitlines()[0])
else:
    raise AssertionError("a long line is no longer an error")
PY
