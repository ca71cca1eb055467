#!/usr/bin/env bash
# duckdb 2.0.1: after select setseed(0.5), `where random() < 0.8` chooses other rows each time it is run, once the table has
# more than one row group (122,880 rows) and there is more than one thread: the threads draw in the order in which they come.
# With fewer rows it repeats, so a test on a small table does not show it. With one thread it repeats, and so does a split by
# hash(id). Seen, 10 runs of 2,000,000 rows: several splits with 4 threads, 1 with 1 thread, 1 by hash; 1 of 100,000 rows.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q duckdb==2.0.1; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import duckdb


def splits(threads, rows, condition):
    connection = duckdb.connect()
    connection.execute(f"set threads = {threads}")
    connection.execute(f"create table t as select range as id from range({rows})")
    chosen = set()
    for _ in range(10):
        connection.execute("select setseed(0.5)").fetchall()
        chosen.add(connection.execute(f"select sum(id) from t where {condition}").fetchone())
    return len(chosen)


several = splits(4, 2_000_000, "random() < 0.8")
others = [splits(1, 2_000_000, "random() < 0.8"), splits(4, 2_000_000, "hash(id) % 10 < 8"), splits(4, 100_000, "random() < 0.8")]
print(duckdb.__version__, "splits of 10 runs with 4 threads:", several, "; one thread, by hash, few rows:", others)
assert several > 1 and others == [1, 1, 1], "a seeded split repeats"
PY
