"""The sources of tables: files, compressed or not, in any encoding, and mappings.

Other formats of files are named. A cell has one text wherever it comes from:
`column_values.text_of` of values from Python, and `column_values.texts` of polars columns.
"""

import bz2
import codecs
import gzip
import io
import json
import logging
import lzma
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import polars

from andiron import errors
from andiron.data.on_disk import other_files
from andiron.data.on_disk.column_values import text_of
from andiron.data.on_disk.columns import Names, Request
from andiron.disk import files
from andiron.plain import memory
from andiron.progress import watched
from andiron.plain.plain_values import Named, Plain

File = io.BufferedIOBase | BinaryIO
COMPRESSED = {b"\x1f\x8b": gzip, b"BZh": bz2, b"\xfd7zXZ": lzma}
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
PARQUET = (".parquet", ".pq")
GROUP_CELLS = 2**24  # in memory as they are read: 256 MiB of texts
INPUT_BYTES = 4  # float32
MOST_DIGITS = 38  # of a decimal that polars reads
NO_CELL = (polars.Binary, polars.Duration, polars.Object, polars.BaseExtension)
UNNAMED = re.compile(r"Unnamed: \d+(\.\d+|_level_\d+)*|__index_level_\d+__|")  # by pandas
# an interval, which stops polars otherwise even in a column that is left out
polars.Config.load('{"environment": {"POLARS_IMPORT_INTERVAL_AS_STRUCT": "1"}}')
log = logging.getLogger("andiron")


class Table(NamedTuple):
    """The chosen columns of a table."""

    unit: str  # a line, counted from 1, or a row, counted from 0, in messages
    features: Names
    frames: Iterable[polars.DataFrame]  # of a part of the columns each
    lines: Sequence[int]  # of each row
    bad: Mapping[int, str] = {}  # the fault of an invalid line, by line


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
            if what := other_files.what(path, _start(file)):
                raise errors.DataError(f"{path}: {what}")
            if encoding is None and _start(file).startswith(UTF_16):
                encoding = "utf-16"
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
    with suppress(UnicodeDecodeError):
        if not content.isascii() and "utf" not in encoding.lower() and content.decode():
            log.warning(
                "%s: looks like UTF-8, and is read as data.encoding=%s; if its letters come out "
                "wrong: iconv -f utf-8 -t %s %s > new.csv", path, encoding, encoding,
                shlex.quote(str(path)),
            )  # fmt: skip
    try:
        return io.BytesIO(content.decode(encoding).removeprefix("\ufeff").encode())
    except (LookupError, UnicodeDecodeError) as error:
        raise errors.DataError(
            f"{path}: data.encoding={encoding} does not fit ({error}); give the encoding that it "
            "was written in, such as cp1252, latin-1 or utf-16"
        ) from error


def is_parquet(path: Path, file: File) -> bool:
    """Whether the open file is a parquet file, by its first bytes or its name."""
    return _start(file).startswith(b"PAR1") or path.suffix.lower() in PARQUET


def chosen(path: Path, request: Request, header: Names, index: Collection[str]) -> Names:
    """The features, by default all columns without another role, but for the index of pandas.

    Raises: DataError for a column that is not in the `header`.
    """
    index = [name for name in header
             if name in index or UNNAMED.fullmatch(name)]
    beside = [*request.required, *request.kept, *request.exclude]
    for name in (*(request.features or ()), *beside, *request.reading.kinds):
        if name not in header:
            raise errors.DataError(
                f"{path}: has no column {name!r}{errors.nearest(name, header)}; its columns are: "
                f"{', '.join(header)}"
            )
    features = request.features or [
        name for name in header if name and name not in beside and name not in index
    ]
    if not features:
        raise errors.DataError(
            f"{path}: has no column beside {', '.join(beside)}; there is nothing to learn from"
        )
    left_out = [name for name in index if name not in (*features, *beside)]
    if left_out and request.features is None:
        log.warning(
            "%s: no feature, without a name or with that of a data frame's index: column %s; "
            "data.features=[...] lists all that are",
            path, ", ".join(map(repr, left_out)),
        )  # fmt: skip
    return features


def of_parquet(path: Path, file: Any, request: Request) -> Table:
    """The chosen columns of a parquet file; only they are read.

    Moments are read in microseconds, as INT96 of Spark has years that nanoseconds cannot count.
    Raises: DataError naming a column whose values are no cells of a table.
    """
    content = path if isinstance(file, io.BufferedReader) else io.BytesIO(file.read())
    kinds = polars.read_parquet_schema(content)
    of_pandas = json.loads(polars.read_parquet_metadata(content).get("pandas", "{}"))
    # an index that is a range has no column
    index = [name for name in of_pandas.get("index_columns", ()) if isinstance(name, str)]
    features = chosen(path, request, [*kinds], index)
    schema: Plain = {name: kinds[name] for name in request.columns(features)}
    _check_kinds(path, schema)
    schema |= {name: polars.Datetime("us", kind.time_zone) for name, kind in schema.items()
               if isinstance(kind, polars.Datetime)}  # fmt: skip
    schema |= {name: polars.Float64 for name, kind in schema.items()
               if kind in (polars.Int128, polars.UInt128)}  # which NumPy has not  # fmt: skip
    casts = polars.ScanCastOptions(
        datetime_cast=["nanosecond-downcast", "millisecond-upcast"], integer_cast="allow-float"
    )
    scan = polars.scan_parquet(
        content, schema=schema, cast_options=casts, extra_columns="ignore", glob=False
    )
    size = scan.select(polars.len()).collect().item()
    return Table("row", features, in_groups(path, scan, size, request), range(size))


def in_groups(
    path: Path, scan: polars.LazyFrame, size: int, request: Request
) -> Iterator[polars.DataFrame]:
    """The columns of a scan of `size` rows, at most GROUP_CELLS values at a time.

    A long read logs how far it is.
    Raises: DataError if the columns, as they are read, and the inputs are larger than the
    workspace of the request.
    """
    empty = polars.DataFrame(schema=scan.collect_schema())
    row_bytes = sum(column.to_numpy().itemsize + INPUT_BYTES for column in empty)
    if (num_bytes := size * row_bytes) > request.workspace.limit:
        raise errors.DataError(
            f"{path}: its columns take at least {memory.in_words(num_bytes)} of memory, and this "
            f"machine has {memory.in_words(memory.of_machine())}; set data.in_memory=false, which "
            "keeps the rows on the disk, or leave columns out with data.exclude=[...]"
        )
    number = max(1, GROUP_CELLS // max(1, size))
    groups = [empty.columns[first : first + number] for first in range(0, empty.width, number)]
    for group in watched(groups, f"{path}: groups of columns", len(groups)):
        yield scan.select(polars.selectors.by_name(*group)).collect()


def of_mappings(rows: Iterable[Named], request: Request) -> Table:
    """The columns of rows from Python: numbers, texts, dates or None."""
    features = request.features or ()
    schema = dict.fromkeys(request.columns(features), polars.String)
    bad, good = dict[int, str](), dict[int, list[str]]()
    for number, row in enumerate(rows):
        if absent := [name for name in schema if name not in row]:
            bad[number] = f": has no column {absent[0]!r}{errors.nearest(absent[0], map(str, row))}"
        else:
            good[number] = [text_of(row[name], request.reading.decimal) for name in schema]
    frame = polars.DataFrame([*good.values()], schema=schema, orient="row")
    return Table("row", features, [frame], [*good], bad)


def _check_kinds(source: Path, kinds: Named) -> None:
    if wrong := {name: kind for name, kind in kinds.items()
                 if kind.is_nested() or isinstance(kind, NO_CELL)
                 or kind.is_decimal() and kind.precision > MOST_DIGITS}:  # fmt: skip
        listed = ", ".join(f"{name!r} ({kind})" for name, kind in wrong.items())
        raise errors.DataError(
            f"{source}: cannot use the columns {listed}: a value is a number, a text, a boolean or "
            f"a date; leave them out with data.exclude=[{','.join(wrong)}], or convert them"
        )
