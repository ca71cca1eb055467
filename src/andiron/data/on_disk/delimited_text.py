"""The columns of a delimited text file or a parquet file, and the line of every row.

Polars reads the columns. A file with quotes, blank lines, or lines of another length than the
header is first rewritten by Python's csv module, which tracks line numbers.
"""

import array
import csv as csv_format
import io
import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars

from andiron import errors
from andiron.disk import files

DELIMITERS = (",", ";", "\t", "|")
PARQUET = ".parquet"
OF_POLARS = (polars.exceptions.PolarsError, polars.exceptions.PanicException)
Lines = tuple[polars.DataFrame, Sequence[int], dict[int, str]]
log = logging.getLogger("andiron")


def content_of(path: Path) -> bytes:
    """The text in a file; of a parquet file its columns as CSV.

    Raises: DataError for a file that cannot be read.
    """
    try:
        with files.opened(path) as file:
            if path.suffix == PARQUET:
                return polars.read_parquet(file).write_csv(null_value='""').encode()
            return file.read()
    except (OSError, ValueError, *OF_POLARS) as error:
        why = files.reason(error) if isinstance(error, OSError) else errors.first_line(error)
        raise errors.DataError(f"{path}: cannot be read ({why}); name a file") from error


def rows(path: Path, content: bytes, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The non-blank rows, each with its line number, counted from 1.

    Raises: DataError naming the line of `path` that cannot be read.
    """
    file = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
    reader = csv_format.reader(file, delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if any("\0" in value for value in row):
                raise errors.DataError(
                    f"{path}, line {reader.line_num}: has NUL bytes, as a file that was not "
                    "written whole, or is in UTF-16; restore it, or convert it to UTF-8"
                )
            if row:
                yield reader.line_num, [value.strip() for value in row]
    except (csv_format.Error, UnicodeDecodeError) as error:
        raise errors.DataError(
            f"{path}, after line {reader.line_num}: cannot be read ({error}); correct it"
        ) from error


def columns(
    path: Path, content: bytes, delimiter: str, header: Sequence[str], numbers: Collection[str]
) -> Lines:
    """The columns, the line of each row, and the fault of each invalid line.

    A column of `numbers` is Float64 if all its values are finite numbers; all others are text.
    Raises: DataError as `rows`.
    """
    plain = content.replace(b"\r\n", b"\n")
    if _is_plain(plain, delimiter, len(header)):
        with suppress(polars.exceptions.ComputeError):  # too many values, or not in UTF-8
            frame = _parsed(
                plain, header, numbers, separator=delimiter, quote_char=None, skip_lines=1
            )
            return frame, range(2, len(frame) + 2), {}
    text, lines, bad = io.StringIO(), array.array("q"), {}
    writer = csv_format.writer(text, lineterminator="\n", quoting=csv_format.QUOTE_ALL)
    for number, (line, row) in enumerate(rows(path, content, delimiter)):
        if len(row) != len(header):
            bad[line] = f": has {len(row)} values where the header has {len(header)} names"
        elif number:  # the first is the header
            lines.append(line)
            writer.writerow(row)
    return _parsed(text.getvalue().encode(), header, numbers), lines, bad


def _is_plain(content: bytes, delimiter: str, width: int) -> bool:
    """Whether line n is row n, and no line has too few values unless another has too many."""
    is_simple = width > 1 and delimiter.isascii()
    if not is_simple or any(mark in content for mark in (b'"', b"\r", b"\0")):
        return False
    ends = content.count(b"\n") + (not content.endswith(b"\n"))
    return content.count(delimiter.encode()) == ends * (width - 1)


def _parsed(
    content: bytes, header: Sequence[str], numbers: Collection[str], **options: Any
) -> polars.DataFrame:
    def read(numbers: Collection[str], places: Sequence[int] | None = None) -> polars.DataFrame:
        kinds = {name: polars.Float64 if name in numbers else polars.String for name in header}
        return polars.read_csv(
            content, schema=kinds, columns=places, has_header=False, ignore_errors=True,
            empty_string_is_null=False, raise_if_empty=False, extra_columns="raise", **options
        )  # fmt: skip

    frame = read(numbers)
    odd = [name for name in numbers if not frame[name].is_finite().fill_null(False).all()]
    if odd:
        frame = frame.with_columns(read((), [header.index(name) for name in odd]))
    return frame.with_columns(polars.col(polars.String).str.strip_chars())


def delimiter_of(path: Path, content: bytes, wanted: Sequence[str]) -> str:
    """The first of DELIMITERS that gives a header with all the names `wanted`.

    If none does, the one with the longest header.
    """
    headers: dict[str, list[str]] = {}
    for delimiter in DELIMITERS:
        with suppress(errors.DataError):  # quotes are misplaced by another delimiter
            _, headers[delimiter] = next(rows(path, content, delimiter), (0, []))
    fitting = [each for each, header in headers.items() if {*wanted} <= {*header}]
    if not fitting:
        return max(headers, key=lambda each: len(headers[each]), default=DELIMITERS[0])
    if fitting[0] != DELIMITERS[0]:
        log.info("%s: columns are separated by %r", path, fitting[0])
    return fitting[0]


def header_of(path: Path, content: bytes, delimiter: str) -> list[str]:
    """The names of the columns, in the first line that is not blank.

    Raises: DataError as `rows`, and if there is no such line, or a name is empty or repeated.
    """
    line, names = next(rows(path, content, delimiter), (0, []))
    if not names:
        raise errors.DataError(
            f"{path}: is empty; its first line should have the names of the columns"
        )
    for place, name in enumerate(names, start=1):
        if not name or names.index(name) != place - 1:
            what = f"the name {name!r} twice" if name else f"no name for column {place}"
            raise errors.DataError(
                f"{path}, line {line}: the header has {what}; give each column a name of its own"
            )
    return names


def check_names(path: Path, header: Sequence[str], wanted: Sequence[str]) -> None:
    """Raises a DataError if the header lacks one of the names `wanted`."""
    for name in wanted:
        if name not in header:
            hint = errors.nearest(name, header) or _other_delimiter(header)
            raise errors.DataError(
                f"{path}: has no column {name!r}{hint}; its columns are: {', '.join(header)}"
            )


def _other_delimiter(header: Sequence[str]) -> str:
    """A hint at the delimiter if the header was read as one column."""
    delimiters = [mark for mark in DELIMITERS if len(header) == 1 and mark in header[0]]
    return f"; set data.delimiter={delimiters[0]!r}" if delimiters else ""
