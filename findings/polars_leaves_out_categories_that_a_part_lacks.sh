#!/usr/bin/env bash
# polars 2.1.0 drops the categories of a pandas column, or of an Arrow dictionary, that no row has, and numbers the others anew. A test set that was
# encoded with the categories of the training set has other codes and fewer one-hot columns once it is handed over, or
# is read from parquet, and the same class is another number in the two parts. pandas 3.1.1 and pyarrow 26.0.1 keep the
# categories in memory and in parquet. polars.Enum keeps them: cast with the list.
# Seen, ["b", "c"] of the categories a, b, c: codes in pandas and pyarrow [1, 2], in polars [0, 1], by from_pandas, from_arrow and
# read_parquet; one-hot columns 3 in pandas, 2 in polars; as polars.Enum [1, 2].
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q polars==2.1.0 pandas==3.1.1 pyarrow==26.0.1; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import pandas
import polars
import pyarrow

names = ["a", "b", "c"]
part = pandas.DataFrame({"kind": pandas.Categorical(["b", "c"], categories=names)})
part.to_parquet("part.parquet")
arrow = pyarrow.Table.from_pandas(part)
frames = {"from_pandas": polars.from_pandas(part), "from_arrow": polars.from_arrow(arrow), "read": polars.read_parquet("part.parquet")}
codes = {name: frame["kind"].to_physical().to_list() for name, frame in frames.items()}
codes["Enum"] = frames["read"]["kind"].cast(polars.Enum(names)).to_physical().to_list()
codes["pandas"] = pandas.read_parquet("part.parquet")["kind"].cat.codes.tolist()
codes["pyarrow"] = arrow["kind"].chunk(0).indices.to_pylist()
columns = {"pandas": pandas.get_dummies(part).shape[1], "polars": frames["read"].to_dummies().shape[1]}
print(polars.__version__, pandas.__version__, pyarrow.__version__, codes, "one-hot columns", columns)
assert all(codes[name] == [0, 1] for name in frames), "categories are kept"
assert all(codes[name] == [1, 2] for name in ("Enum", "pandas", "pyarrow")) and columns == {"pandas": 3, "polars": 2}
PY
