#!/usr/bin/env bash
# polars 2.1.0: a method of a Series fails if the name of the Series begins with ^ and ends with $. Many methods wrap the Series in a
# frame and select its column by name, and such a name is taken for a pattern, which the name itself does not match.
# Seen: IndexError: index 0 is out of bounds for sequence of length 0, from fill_null of a column ^a$; the same of a column a works.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q polars==2.1.0; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import polars

frame = polars.read_csv(b"^a$,b\n1,2\n")
print(polars.__version__, frame["b"].fill_null(0).to_list())
try:
    frame["^a$"].fill_null(0)
except IndexError as error:
    print("IndexError:", error)
else:
    raise AssertionError("the name is no pattern any more")
assert frame["^a$"].alias("").fill_null(0).to_list() == [1]
PY
