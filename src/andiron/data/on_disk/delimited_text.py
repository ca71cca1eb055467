"""The columns of a delimited text file or a parquet file, and the line of every row.

Polars reads the columns, block by block. A file with quotes, blank lines, or lines of another
length than the header is first rewritten by Python's csv module, which tracks line numbers.
"""

import array
import csv as csv_format
import functools
import io
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import polars
from jaxtyping import Float

from andiron import errors
from andiron.disk import files

BLOCK_BYTES = 8 * 2**20  # of text in memory at a time
DELIMITERS = (",", ";", "\t", "|")
PARQUET = ".parquet"
OF_POLARS = (polars.exceptions.PolarsError, polars.exceptions.PanicException)
File = io.BufferedIOBase | BinaryIO
Blocks = Callable[[], Iterable[bytes]]  # each of whole lines
log = logging.getLogger("andiron")


class Values(NamedTuple):
    """The columns of a table; columns of finite numbers are apart."""

    texts: polars.DataFrame  # "" where a value is missing
    numeric: Sequence[str]  # the names of the columns of `numbers`
    numbers: Float[np.ndarray, "rows columns"]


@contextmanager
def opened(path: Path) -> Iterator[File]:
    """The text in a file; of a parquet file its columns as CSV.

    Raises: DataError for a file that cannot be read.
    """
    try:
        with files.opened(path) as file:
            if path.suffix == PARQUET:
                text = polars.read_parquet(file).write_csv(null_value='""')
                yield io.BytesIO(text.encode())
            else:
                yield file
    except (OSError, ValueError, *OF_POLARS) as error:
        why = files.reason(error) if isinstance(error, OSError) else errors.first_line(error)
        raise errors.DataError(f"{path}: cannot be read ({why}); name a file") from error


def rows(path: Path, file: File, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The non-blank rows, each with its line number, counted from 1.

    Raises: DataError naming the line of `path` that cannot be read.
    """
    file.seek(0)
    text = io.TextIOWrapper(cast(BinaryIO, file), encoding="utf-8-sig", newline="")
    reader = csv_format.reader(text, delimiter=delimiter, strict=True)
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
    finally:
        text.detach()  # which would close the file


def columns(
    path: Path, file: File, delimiter: str, header: Sequence[str], numbers: Sequence[str]
) -> tuple[Values, Sequence[int], dict[int, str]]:
    """The columns, the line of each row, and the fault of each invalid line.

    A column of `numbers` is numeric if all its values are finite numbers; all others are text.
    Raises: DataError as `rows`.
    """
    size = _plain_lines(file, delimiter, len(header)) - 1
    if size > 0:
        with suppress(polars.exceptions.PolarsError):  # too many values, or not in UTF-8
            blocks = functools.partial(_rows, file)
            options = {"separator": delimiter, "quote_char": None}
            values = _parsed(blocks, size, header, numbers, **options)
            return values, range(2, size + 2), {}
    text, lines, bad = io.StringIO(), array.array("q"), {}
    writer = csv_format.writer(text, lineterminator="\n", quoting=csv_format.QUOTE_ALL)
    for number, (line, row) in enumerate(rows(path, file, delimiter)):
        if len(row) != len(header):
            bad[line] = f": has {len(row)} values where the header has {len(header)} names"
        elif number:  # the first is the header
            lines.append(line)
            writer.writerow(row)
    content = text.getvalue().encode()
    return _parsed(lambda: [content], len(lines), header, numbers), lines, bad


def _plain_lines(file: File, delimiter: str, width: int) -> int:
    """The number of lines if line n is row n and has no quotes; else 0.

    No line has too few values unless another has too many.
    """
    if width == 1 or not delimiter.isascii():
        return 0
    ends = delimiters = 0
    file.seek(0)
    for block in _whole_lines(file):
        if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
            return 0
        if b'"' in block or b"\0" in block:
            return 0
        marks = np.frombuffer(block, np.uint8)  # counts ten times as fast as bytes
        ends += int(np.count_nonzero(marks == ord("\n")))
        delimiters += int(np.count_nonzero(marks == ord(delimiter)))
    lines = ends + int(marks[-1] != ord("\n"))
    return lines if delimiters == lines * (width - 1) else 0


def _rows(file: File) -> Iterator[bytes]:
    """The lines after the first, in blocks."""
    file.seek(0)
    file.readline()
    return _whole_lines(file)


def _whole_lines(file: File) -> Iterator[bytes]:
    """The rest of the file, in blocks of whole lines."""
    while block := file.read(BLOCK_BYTES) + file.readline():
        yield block


def _parsed(
    blocks: Blocks, size: int, header: Sequence[str], numbers: Sequence[str], **options: Any
) -> Values:
    def read(block: bytes, numbers: Sequence[str], names: Sequence[str]) -> polars.DataFrame:
        kinds = {name: polars.Float64 if name in numbers else polars.String for name in header}
        return polars.read_csv(
            block, schema=kinds, columns=[*map(header.index, names)], has_header=False,
            ignore_errors=True, empty_string_is_null=False, raise_if_empty=False,
            extra_columns="raise", **options
        ).with_columns(polars.col(polars.String).str.strip_chars())  # fmt: skip

    others = [name for name in header if name not in numbers]
    frames = [polars.DataFrame(schema=dict.fromkeys(others, polars.String))]
    matrix, is_finite, row = np.empty((size, len(numbers))), np.ones(len(numbers), bool), 0
    for block in blocks():
        frame = read(block, numbers, header)
        frames.append(frame.select(others))
        values = matrix[row : row + len(frame)]
        for column, name in zip(values.T, numbers):
            column[:] = frame[name]
        is_finite &= np.isfinite(values).all(0)
        row += len(frame)
    texts = polars.concat(frames, rechunk=True)
    odd = [name for name, is_numeric in zip(numbers, is_finite) if not is_numeric]
    if odd:
        again = polars.concat((read(block, (), odd) for block in blocks()), rechunk=True)
        texts = polars.concat((texts, again), how="horizontal")  # `hstack` needs a column to begin
        matrix = matrix.compress(is_finite, axis=1)
    return Values(texts, [name for name in numbers if name not in odd], matrix)


def delimiter_of(path: Path, file: File, wanted: Sequence[str]) -> str:
    """The first of DELIMITERS that gives a header with all the names `wanted`.

    If none does, the one with the longest header.
    """
    headers: dict[str, list[str]] = {}
    for delimiter in DELIMITERS:
        with suppress(errors.DataError):  # quotes are misplaced by another delimiter
            _, headers[delimiter] = next(rows(path, file, delimiter), (0, []))
    fitting = [each for each, header in headers.items() if {*wanted} <= {*header}]
    if not fitting:
        return max(headers, key=lambda each: len(headers[each]), default=DELIMITERS[0])
    if fitting[0] != DELIMITERS[0]:
        log.info("%s: columns are separated by %r", path, fitting[0])
    return fitting[0]


def header_of(path: Path, file: File, delimiter: str) -> list[str]:
    """The names of the columns, in the first line that is not blank.

    Raises: DataError as `rows`, and if there is no such line, or a name is empty or repeated.
    """
    line, names = next(rows(path, file, delimiter), (0, []))
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
