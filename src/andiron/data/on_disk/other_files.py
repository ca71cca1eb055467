"""Files that are no tables, by their first bytes and names, and the lines that make tables of them.

    >>> what(Path("t.csv"), b"a,b"), what(Path("t.zip"), b"")
    ('', 'is an archive; unpack it: unzip t.zip')
    >>> what(Path("t.jsonl"), b"").partition(" -c ")[2]
    '"import polars; polars.read_ndjson(\\'t.jsonl\\').write_parquet(\\'t.parquet\\')"'
"""

import shlex
from pathlib import Path

from andiron import errors
from andiron.disk import files

START = 512  # bytes that tell the kind of a file
TAR = slice(257, 262)  # the place of its mark
CALLS = {  # for a shell, by the names below
    "pandas": 'python -c "import pandas; pandas.read_',
    "as_csv": "('{name}').to_csv('{stem}.csv', index=False)\"",
    "polars": 'python -c "import polars; polars.read_',
    "as_parquet": "('{name}').write_parquet('{stem}.parquet')\"",
    "numpy": 'python -c "import numpy, polars, safetensors.numpy as safe; ',
    "parts": "('{name}/**/*.parquet').write_parquet('{stem}.parquet')\"",
    "load": "('{name}')",
    "elsewhere": "write the table as CSV or parquet where it was made, and name that file",
}
BY_START = {
    b"SQLite format 3": "a database; {elsewhere}",
    b"\x28\xb5\x2f\xfd": "compressed; unpack it: zstd -d {shell}",
    b"7z\xbc\xaf": "an archive; unpack it: 7z x {shell}",
    b"Rar!": "an archive; unpack it: unrar x {shell}",
    b"\xff\xff\xff\xff": "a stream of Arrow; {polars}ipc_stream{as_parquet}",
    b"ARROW1": "a file of Arrow; {polars}ipc{as_parquet}",
    b"Obj\x01": "a file of Avro; {polars}avro{as_parquet}",
    b"\x89HDF": "a file of HDF5; {pandas}hdf{as_csv}",
    b"\xd0\xcf\x11\xe0": "a spreadsheet; {pandas}excel{as_csv}",
}
BY_SUFFIX = {
    ".xlsx": "a spreadsheet; {pandas}excel{as_csv}",
    ".xlsm": "a spreadsheet; {pandas}excel{as_csv}",
    ".ods": "a spreadsheet; {pandas}excel{as_csv}",
    ".json": "a file of JSON; {pandas}json{as_csv}",
    ".jsonl": "a file of JSON lines; {polars}ndjson{as_parquet}",
    ".ndjson": "a file of JSON lines; {polars}ndjson{as_parquet}",
    ".dta": "a file of Stata; {pandas}stata{as_csv}",
    ".sav": "a file of SPSS; {pandas}spss{as_csv}",
    ".sas7bdat": "a file of SAS; {pandas}sas{as_csv}",
    ".orc": "a file of ORC; {pandas}orc{as_csv}",
    ".feather": "a file of Arrow; {polars}ipc{as_parquet}",
    ".npy": "an array of NumPy; {numpy}polars.DataFrame(numpy.load{load}).write_parquet"
    "('{stem}.parquet')\"",
    ".npz": "a file of arrays, which data=safetensors reads once written; {numpy}safe.save_file"
    "(dict((k, a.copy()) for k, a in numpy.load{load}.items()), '{stem}.safetensors')\"",
    ".zip": "an archive; unpack it: unzip {shell}",
    ".duckdb": "a database; {elsewhere}",
    ".sql": "statements of SQL; {elsewhere}",
    ".pkl": "a pickle; {elsewhere}",
    ".pickle": "a pickle; {elsewhere}",
    ".rds": "a file of R; {elsewhere}",
    ".rdata": "a file of R; {elsewhere}",
    ".mat": "a file of MATLAB; {elsewhere}",
    ".arff": "a file of Weka; remove its lines to @data, and name the columns in data.header=[...]",
}


def what(path: Path, start: bytes) -> str:
    """The kind of a file, and how it becomes a table that data=csv reads; "" for a table."""
    kind = BY_SUFFIX.get(path.suffix.lower(), "")
    if text := files.stand_in(start):
        kind = text
    elif start[TAR] == b"ustar":
        kind = "an archive; unpack it: tar -xf {shell}"
    elif start.startswith(b"PK\3\4"):
        kind = kind or BY_SUFFIX[".zip"]
    else:
        kind = next((BY_START[mark] for mark in BY_START if start.startswith(mark)), kind)
    return kind and f"is {_filled(kind, path)}"


def refuse_folder(path: Path) -> None:
    """Raises: DataError naming a folder that stands for a table, and how it becomes one."""
    if path.is_dir():
        kind = "a folder; name a file in data.path"
        if (path / "_delta_log").is_dir():
            kind = "a table of Delta; {elsewhere}"
        elif any(path.rglob("*.parquet")):
            kind = "a folder of parquet files; {polars}parquet{parts}"
        raise errors.DataError(f"{path}: is {_filled(kind, path)}")


def _filled(text: str, path: Path) -> str:
    filled = text.format(name="{name}", stem="{stem}", shell="{shell}", **CALLS)
    return filled.format(name=path, stem=path.with_suffix(""), shell=shlex.quote(str(path)))
