"""Files that are no tables, by their first bytes and names, and the lines that make tables of them.

    >>> what(Path("t.csv"), b"a,b"), what(Path("t.zip"), b"")
    ('', 'is an archive; unpack it: unzip t.zip')
    >>> what(Path("t.jsonl"), b"").partition(" -c ")[2]
    '"import polars; polars.read_ndjson(\\'t.jsonl\\').write_parquet(\\'t.parquet\\')"'
"""

import shlex
from pathlib import Path

from andiron import errors

START = 512  # bytes that tell the kind of a file
TAR = slice(257, 262)  # the place of its mark
PANDAS = "python -c \"import pandas; pandas.{}('{name}').to_csv('{stem}.csv', index=False)\""
POLARS = "python -c \"import polars; polars.{}('{name}').write_parquet('{stem}.parquet')\""
ARRAY = (
    "is an array of NumPy; python -c \"import numpy, polars; "
    "polars.DataFrame(numpy.load('{name}')).write_parquet('{stem}.parquet')\""
)
ARRAYS = (
    "holds arrays, which data=safetensors reads; python -c \"import numpy, safetensors.numpy; "
    "safetensors.numpy.save_file(dict(numpy.load('{name}')), '{stem}.safetensors')\""
)
ELSEWHERE = "; write the table as CSV or parquet where it was made, and name that file"
EXCEL = "is a spreadsheet; " + PANDAS.replace("{}", "read_excel")
LINES = "is a file of JSON lines; " + POLARS.replace("{}", "read_ndjson")
ARROW = "is a file of Arrow; " + POLARS.replace("{}", "read_ipc")
UNZIP = "is an archive; unpack it: unzip {shell}"
BY_START = {
    b"version https://git-lfs": "is a pointer of Git LFS, not the file itself; run git lfs pull",
    b"SQLite format 3": "is a database" + ELSEWHERE,
    b"\x28\xb5\x2f\xfd": "is compressed; unpack it: zstd -d {shell}",
    b"7z\xbc\xaf": "is an archive; unpack it: 7z x {shell}",
    b"Rar!": "is an archive; unpack it: unrar x {shell}",
    b"\xff\xff\xff\xff": "is a stream of Arrow; " + POLARS.replace("{}", "read_ipc_stream"),
    b"ARROW1": ARROW,
    b"Obj\x01": "is a file of Avro; " + POLARS.replace("{}", "read_avro"),
    b"\x89HDF": "is a file of HDF5; " + PANDAS.replace("{}", "read_hdf"),
    b"\xd0\xcf\x11\xe0": EXCEL,
    b"\x93NUMPY": ARRAY,
}
BY_SUFFIX = {
    ".xlsx": EXCEL, ".xlsm": EXCEL, ".ods": EXCEL, ".jsonl": LINES, ".ndjson": LINES,
    ".orc": "is a file of ORC; " + PANDAS.replace("{}", "read_orc"),
    ".json": "is a file of JSON; " + PANDAS.replace("{}", "read_json"),
    ".dta": "is a file of Stata; " + PANDAS.replace("{}", "read_stata"),
    ".sav": "is a file of SPSS; " + PANDAS.replace("{}", "read_spss"),
    ".sas7bdat": "is a file of SAS; " + PANDAS.replace("{}", "read_sas"),
    ".feather": ARROW, ".npy": ARRAY, ".npz": ARRAYS, ".zip": UNZIP,
    ".duckdb": "is a database" + ELSEWHERE,
    ".pkl": "is a pickle" + ELSEWHERE, ".pickle": "is a pickle" + ELSEWHERE,
}  # fmt: skip


def what(path: Path, start: bytes) -> str:
    """The kind of a file, and how it becomes a table that data=csv reads; "" for a table."""
    by_suffix = BY_SUFFIX.get(path.suffix.lower(), "")
    kinds = [kind for mark, kind in BY_START.items() if start.startswith(mark)]
    if start.lstrip().lower().startswith((b"<!doctype html", b"<html")):
        kinds = ["is a page of HTML, not a table; download the file that it shows"]
    if start[TAR] == b"ustar":
        kinds = ["is an archive; unpack it: tar -xf {shell}"]
    elif start.startswith(b"PK\3\4"):
        kinds = [by_suffix or UNZIP]
    return _filled((kinds or [by_suffix])[0], path)


def refuse_folder(path: Path) -> None:
    """Raises: DataError naming a folder that stands for a table, and how it becomes one."""
    if not path.is_dir():
        return
    kind = "is a folder; name a file"
    if (path / "_delta_log").is_dir():
        kind = "is a table of Delta" + ELSEWHERE
    elif any(path.rglob("*.parquet")):
        parts = POLARS.replace("{}('{name}'", "read_parquet('{name}/**/*.parquet'")
        kind = "is a folder of parquet files; " + _filled(parts, path)
    raise errors.DataError(f"{path}: {kind}")


def _filled(text: str, path: Path) -> str:
    return text.format(name=path, stem=path.with_suffix(""), shell=shlex.quote(str(path)))
