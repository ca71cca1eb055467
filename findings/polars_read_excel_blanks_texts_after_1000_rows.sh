#!/usr/bin/env bash
# polars 2.1.0 with fastexcel 0.21.0: read_excel chooses a column's type by the first 1,000 rows of a sheet and makes null of each later cell that is of
# another kind, without a warning or a count: "<5", "positive", a code with a letter. The default is dtype_coercion="coerce" of fastexcel. pandas 3.1.1 (openpyxl
# or calamine) keeps the cells, and polars itself reads the same sheet as texts if one such cell is among the first 1,000, so the
# answer depends on the order of the rows: a sorted sheet loses its rare classes, a shuffled one does not. Where no other column is read
# the rows are left out altogether, so labels read alone lie beside other rows' inputs. polars' read_csv raises in such a case.
# Reported in several forms (polars 15748, 23728, fastexcel 208, 236), all closed. Give infer_schema_length=None.
# Seen, 1,500 rows, the last 300 texts: polars Int64 with 300 nulls, with infer_schema_length=None String with none, the column alone 1,200 rows;
# pandas 300 texts.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q polars==2.1.0 fastexcel==0.21.0 pandas==3.1.1 openpyxl==3.1.5 xlsxwriter==3.3.1 pyarrow==26.0.1 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import warnings

import fastexcel
import pandas
import polars
import xlsxwriter

warnings.simplefilter("error")
with xlsxwriter.Workbook("sheet.xlsx") as book:
    sheet = book.add_worksheet()
    sheet.write_column(0, 0, ["result", *range(1200), *["positive"] * 300])
    sheet.write_column(0, 1, ["row", *range(1500)])


def described(column):
    texts = (column.cast(polars.String) == "positive").sum()
    return str(column.dtype), len(column), column.null_count(), texts


by_pandas = pandas.read_excel("sheet.xlsx", engine="openpyxl").result
read = {
    "default": described(polars.read_excel("sheet.xlsx")["result"]),
    "all rows": described(polars.read_excel("sheet.xlsx", infer_schema_length=None)["result"]),
    "alone": described(polars.read_excel("sheet.xlsx", columns=["result"])["result"]),
}
print(polars.__version__, fastexcel.__version__, pandas.__version__, read, (by_pandas == "positive").sum())
assert (by_pandas == "positive").sum() == 300 and not by_pandas.isna().any()
assert read["all rows"] == ("String", 1500, 0, 300)
assert read["default"] == ("Int64", 1500, 300, 0), "texts are kept"
assert read["alone"] == ("Int64", 1200, 0, 0), "rows of one column are kept"
PY
