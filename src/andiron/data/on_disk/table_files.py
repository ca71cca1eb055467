"""The sources of tables: files, compressed or not, in any encoding; data frames, and mappings.

Other formats of files are named. A cell has one text wherever it comes from:
`column_values.text_of` of values from Python, and `column_values.texts` of polars columns.
"""

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import polars

from andiron import errors
from andiron.data.on_disk import other_files
from andiron.data.on_disk.column_values import text_of
from andiron.data.on_disk.columns import is_frame
from andiron.disk import files

LIKELY_ENCODING = "cp1252"  # of Excel in the Americas and western Europe
MARKS = {  # that begin a file; the longer first
    b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16",
}  # fmt: skip
File = io.BufferedIOBase | BinaryIO
COMPRESSED = {b"\x1f\x8b": gzip, b"BZh": bz2, b"\xfd7zXZ": lzma}
PARQUET = (".parquet", ".pq")
MOST_DIGITS = 38  # of a decimal that polars reads
NO_CELL = (polars.Binary, polars.Duration, polars.Object, polars.BaseExtension)
# an interval, which stops polars otherwise even in a column that is left out
polars.Config.load('{"environment": {"POLARS_IMPORT_INTERVAL_AS_STRUCT": "1"}}')
# of the names, and those of an index: the features, and further columns
Choose = Callable[[Sequence[str], Collection[str]], tuple[Sequence[str], Sequence[str]]]


@contextmanager
def opened(path: Path, content: bytes | None, encoding: str | None) -> Iterator[File]:
    """The file, or its `content`, as text in UTF-8; decompressed if it is gzip, bzip2 or xz.

    Raises: DataError for a file that cannot be read, or is of another kind.
    """
    try:
        with files.opened(path) if content is None else io.BytesIO(content) as source:
            file: File = source
            for mark, module in COMPRESSED.items():
                if _start(source).startswith(mark):
                    file = module.open(source)
            start = _start(file)
            if what := other_files.what(path, start):
                raise errors.DataError(f"{path}: {what}")
            marked = (name for mark, name in MARKS.items() if start.startswith(mark))
            encoding = encoding or next(marked, None)
            yield file if encoding is None else _decoded(path, file, encoding)
    except (OSError, ValueError, EOFError, lzma.LZMAError, polars.exceptions.PolarsError,
            polars.exceptions.PanicException) as error:  # fmt: skip
        why = files.reason(error) if isinstance(error, OSError) else errors.first_line(error)
        raise errors.DataError(f"{path}: cannot be read ({why}); name a file") from error


def _start(file: File) -> bytes:
    start = file.read(other_files.START)
    file.seek(0)
    return start


def _decoded(path: Path, file: File, encoding: str) -> File:
    content = file.read()
    try:
        return io.BytesIO(content.decode(encoding).removeprefix("\ufeff").encode())
    except LookupError as error:
        raise errors.DataError(
            f"data.encoding={encoding}: is no encoding that Python knows; give one such as "
            f"{LIKELY_ENCODING}, latin-1 or utf-16"
        ) from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise errors.DataError(
            f"{path}, line {line}: is not {encoding.upper()} (byte 0x{content[error.start]:02x}); "
            "give its encoding in data.encoding"
        ) from error


class Table(NamedTuple):
    """The chosen columns of a table."""

    unit: str  # a line, counted from 1, or a row, counted from 0, in messages
    features: Sequence[str]
    frame: polars.DataFrame
    lines: Sequence[int]  # of each row
    bad: Mapping[int, str] = {}  # the fault of an invalid line, by line


def is_parquet(path: Path, file: File) -> bool:
    """Whether the open file is a parquet file, by its first bytes or its name."""
    return _start(file).startswith(b"PAR1") or path.suffix.lower() in PARQUET


def of_parquet(path: Path, file: Any, choose: Choose) -> Table:
    """The chosen columns of a parquet file; only they are read.

    Moments are read in microseconds, as INT96 of Spark has years that nanoseconds cannot count.
    Raises: DataError naming a column whose values are no cells of a table.
    """
    content = file.read()
    kinds = polars.read_parquet_schema(io.BytesIO(content))
    of_pandas = json.loads(polars.read_parquet_metadata(io.BytesIO(content)).get("pandas", "{}"))
    # an index that is a range has no column
    index = [name for name in of_pandas.get("index_columns", ()) if isinstance(name, str)]
    features, others = choose([*kinds], index)
    names = [*dict.fromkeys([*features, *others])]
    chosen: dict[str, Any] = {name: kinds[name] for name in names}
    _check_kinds(path, chosen)
    chosen |= {name: polars.Datetime("us", kind.time_zone) for name, kind in chosen.items()
               if isinstance(kind, polars.Datetime)}  # fmt: skip
    casts = polars.ScanCastOptions(datetime_cast="nanosecond-downcast")
    frame = polars.scan_parquet(
        io.BytesIO(content), schema=chosen, cast_options=casts, extra_columns="ignore"
    ).collect()
    return Table("row", features, frame, range(len(frame)))


def of_frame(frame: Any, choose: Choose) -> Table:
    """The chosen columns of a data frame, of polars or of pandas, and of its named index."""
    if hasattr(frame, "index") and any(frame.index.names):
        levels = [name for name in frame.index.names if name not in (None, *frame.columns)]
        frame = frame.reset_index(levels)
    named = {str(name): name for name in frame.columns}
    features, others = choose([*named], ())
    columns = polars.DataFrame({name: _series(frame[named[name]]) for name in (*features, *others)})
    _check_kinds("the data frame", columns.schema)
    return Table("row", features, columns, range(len(columns)))


def of_mappings(
    rows: Iterable[Mapping[str, Any]], features: Sequence[str], others: Sequence[str]
) -> Table:
    """The columns of rows from Python: numbers, texts, dates or None."""
    schema, bad, good = dict.fromkeys([*features, *others], polars.String), {}, {}
    for number, row in enumerate(rows):
        if absent := [name for name in schema if name not in row]:
            bad[number] = f": has no column {absent[0]!r}{errors.nearest(absent[0], map(str, row))}"
        else:
            good[number] = [text_of(row[name]) for name in schema]
    frame = polars.DataFrame([*good.values()], schema=schema, orient="row")
    return Table("row", features, frame, [*good], bad)


def _series(column: Any) -> polars.Series:
    """A column of a data frame; of pandas, which need not have Arrow."""
    if is_frame(column):
        raise errors.DataError(
            f"the data frame has the column {column.columns[0]!r} twice; give each column a name "
            "of its own"
        )
    if isinstance(column, polars.Series):
        return column
    if getattr(column.dtype, "kind", "O") in "biuf" and isinstance(column.dtype, np.dtype):
        return polars.Series(column.to_numpy())
    return polars.Series([*map(text_of, column)], dtype=polars.String)


def _check_kinds(source: str | Path, kinds: Mapping[str, Any]) -> None:
    if wrong := {name: kind for name, kind in kinds.items()
                 if kind.is_nested() or isinstance(kind, NO_CELL)
                 or kind.is_decimal() and kind.precision > MOST_DIGITS}:  # fmt: skip
        listed = ", ".join(f"{name!r} ({kind})" for name, kind in wrong.items())
        raise errors.DataError(
            f"{source}: cannot use the columns {listed}: a value is a number, a text, a boolean or "
            f"a date; leave them out with data.exclude=[{','.join(wrong)}], or convert them"
        )
