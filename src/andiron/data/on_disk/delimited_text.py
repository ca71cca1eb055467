"""The columns of a delimited text file, and the line of every row.

Polars reads the columns, block by block. A file with quotes, blank lines, or lines of another
length than the header is read by Python's csv module, which tracks line numbers.
"""

import array
import csv as csv_format
import io
import itertools
import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import polars

from andiron import errors
from andiron.data.on_disk import table_files
from andiron.data.on_disk.columns import Layout, Request, parsed
from andiron.data.on_disk.table_files import LIKELY_ENCODING, File
from andiron.data.on_disk.table_frames import Choose, Table
from andiron.data.on_disk.written_numbers import MOST_LOOKED_AT, may_be_thousands
from andiron.plain import readable

BLOCK_BYTES = 8 * 2**20  # of text in memory at a time
FEWEST_WAVELENGTHS = 8  # in the header of a spectrum, such as 400.5
BLOCK_ROWS = 2**14
DELIMITERS = (",", ";", "\t", "|", " ")
FIRST_ROWS = 10  # that show whether the header lacks a name
UNNAMED = re.compile(r"Unnamed: \d+(_level_\d+)?|__index_level_\d+__|")  # by pandas
NO_HEADER = (
    "for a file without a header, give the names of the columns in data.header=[...], or "
    "data.header=false, which names them column_1, column_2, ..."
)
OWN_NAMES = "give each column a name of its own, or set data.header=true, which numbers them"
log = logging.getLogger("andiron")


class Header(NamedTuple):
    """The names of the columns, "" where there is none, and the lines above the rows."""

    names: Sequence[str]
    lines: int  # 0 or 1
    lacking: int  # columns that the first line lacks


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
                    "written whole, or is in UTF-16; restore it, or set data.encoding=utf-16"
                )
            if row:
                yield reader.line_num, [value.strip() for value in row]
    except csv_format.Error as error:
        raise errors.DataError(
            f"{path}, after line {reader.line_num}: cannot be read ({error}); correct it"
        ) from error
    except UnicodeDecodeError as error:
        file.seek(0)
        content = file.read()
        try:
            content.decode()
        except UnicodeDecodeError as place:
            error = place
        raise table_files.encoding_error(
            path, content, error,
            f"set data.encoding, such as {LIKELY_ENCODING}, or convert it: iconv -f ... -t utf-8",
        ) from error  # fmt: skip
    finally:
        text.detach()  # which would close the file


def table(path: Path, file: File, request: Request, choose: Choose) -> Table:
    """The chosen columns; the requested ones show which delimiter is the right one.

    A feature without a gap is numeric if all its values are numbers; others are text.
    Raises: DataError as `rows`, or for a header that is unsuitable.
    """
    wanted = [*(request.features or ()), *request.texts]
    delimiter = request.layout.delimiter or _delimiter(path, file, wanted)
    header = _header(path, file, delimiter, request.layout)
    features, others = choose(header.names, [*filter(UNNAMED.fullmatch, header.names)])
    places = {name: header.names.index(name) for name in dict.fromkeys([*features, *others])}
    for name in places:
        if header.names.count(name) > 1:
            what = f"the header has the name {name!r} twice"
            raise errors.DataError(f"{path}, line 1: {what}; {OWN_NAMES}")
    reading = request.reading
    numbers = [name for name in features if reading.decimal == "." and name not in others
               and reading.kinds.get(name, "number") == "number"
               and not reading.missing_numbers]  # fmt: skip
    first = [row for _, row in itertools.islice(rows(path, file, delimiter), MOST_LOOKED_AT)
             if len(row) == len(header.names)]  # fmt: skip
    for name in numbers if reading.thousands is None else ():
        if may_be_thousands([row[places[name]] for row in first[header.lines :]]):
            log.warning(
                "%s: column %r has numbers such as 2.400 beside 850, and their points are read as "
                "decimal points; if they separate thousands, set data.decimal=',' and "
                "data.thousands='.'", path, name,
            )  # fmt: skip
    size = _plain_lines(file, delimiter, header) - header.lines
    if size > 0:
        with suppress(polars.exceptions.PolarsError):  # too many values, or not in UTF-8
            plain = _plain_table(file, delimiter, header, places, numbers, size)
            return plain._replace(features=features)
    return _table_by_row(rows(path, file, delimiter), header, places)._replace(features=features)


def _table_by_row(
    rows: Iterable[tuple[int, list[str]]], header: Header, places: Mapping[str, int]
) -> Table:
    """The columns as text; blank rows are left out."""
    lines, bad = array.array("q"), dict[int, str]()

    def good() -> Iterator[list[str]]:
        for line, row in itertools.islice(rows, header.lines, None):
            if len(row) == len(header.names):
                lines.append(line)
                yield [row[place] for place in places.values()]
            else:
                names = f"the header has {len(header.names)} names"
                bad[line] = f": has {len(row)} values where {names}"

    schema = dict.fromkeys(places, polars.String)
    frames, found = [polars.DataFrame(schema=schema)], good()
    while block := [*itertools.islice(found, BLOCK_ROWS)]:
        frames.append(polars.DataFrame(block, schema=schema, orient="row"))
    return Table("line", (), polars.concat(frames, rechunk=True), lines, bad)


def _plain_lines(file: File, delimiter: str, header: Header) -> int:
    """The number of lines if line n is row n and has no quotes; else 0.

    No line has too few values unless another has too many.
    """
    width = len(header.names)
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
    return lines if delimiters == lines * (width - 1) - header.lacking else 0


def _whole_lines(file: File) -> Iterator[bytes]:
    """The rest of the file, in blocks of whole lines."""
    while block := file.read(BLOCK_BYTES) + file.readline():
        yield block


def _plain_table(
    file: File, delimiter: str, header: Header, places: Mapping[str, int], numbers: Sequence[str],
    size: int,
) -> Table:  # fmt: skip
    """The columns; `numbers` apart where all values are finite."""

    def read(block: bytes, names: Collection[str], numbers: Collection[str]) -> polars.DataFrame:
        kinds: dict[str, Any] = {str(place): polars.String for place in range(len(header.names))}
        kinds |= {str(places[name]): polars.Float64 for name in numbers}
        frame = polars.read_csv(
            block, schema=kinds, columns=[places[name] for name in names], has_header=False,
            ignore_errors=True, separator=delimiter, empty_string_is_null=False,
            raise_if_empty=False, extra_columns="raise", quote_char=None,
        )  # fmt: skip
        frame = frame.rename({str(places[name]): name for name in names})
        return frame.with_columns(polars.col(polars.String).str.strip_chars())

    others = [name for name in places if name not in numbers]
    frames = [polars.DataFrame(schema=dict.fromkeys(others, polars.String))]
    matrix, row = np.empty((size, len(numbers))), 0  # filled block by block: half the memory
    for block in _blocks(file, header.lines):
        frame = read(block, places, numbers)
        frames.append(frame.select(others))
        for column, name in zip(matrix.T, numbers):
            column[row : row + len(frame)] = frame[name]
        row += len(frame)
    odd = [name for name, column in zip(numbers, matrix.T) if not np.isfinite(column).all()]
    texts = polars.concat(frames, rechunk=True)
    if odd:
        again = [read(block, odd, ()) for block in _blocks(file, header.lines)]
        texts = polars.concat((texts, polars.concat(again, rechunk=True)), how="horizontal")
        matrix = matrix.compress([name not in odd for name in numbers], axis=1)
    numeric = [name for name in numbers if name not in odd]
    lines = range(header.lines + 1, header.lines + size + 1)
    return Table("line", (), texts, lines, {}, numeric, matrix)


def _blocks(file: File, skipped: int) -> Iterator[bytes]:
    """The lines after the `skipped` ones, in blocks."""
    file.seek(0)
    for _ in range(skipped):
        file.readline()
    return _whole_lines(file)


def _delimiter(path: Path, file: File, wanted: Sequence[str]) -> str:
    """The first of DELIMITERS that gives a first line with all the names `wanted`.

    If none does, the one with the longest first line.
    """
    headers: dict[str, list[str]] = {}
    for delimiter in DELIMITERS:
        with suppress(errors.DataError):  # quotes are misplaced by another delimiter
            _, headers[delimiter] = next(rows(path, file, delimiter), (0, []))
    fitting = [each for each, header in headers.items() if {*wanted} <= {*header}]
    if not fitting:
        widths = {each: len(header) for each, header in headers.items()}
        return max(widths, key=lambda each: (each != " " and widths[each] > 1, widths[each]),
                   default=DELIMITERS[0])  # fmt: skip
    if fitting[0] != DELIMITERS[0]:
        log.info("%s: columns are separated by %r", path, fitting[0])
    return fitting[0]


def _header(path: Path, file: File, delimiter: str, layout: Layout) -> Header:
    """The names in the options or in the first line that is not blank.

    A name less than the rows have values is a column without a name: the last if it is empty, else
    the first, as R writes the names of rows.
    """
    first = [row for _, row in itertools.islice(rows(path, file, delimiter), 1 + FIRST_ROWS)]
    if not first:
        raise errors.DataError(
            f"{path}: is empty; its first line should have the names of the columns"
        )
    has_names = layout.header in (None, True)
    names = list(layout.header if isinstance(layout.header, Sequence) else first[0])
    below = first[has_names:]
    if layout.header is False:
        names = [f"column_{place}" for place in range(1, len(first[0]) + 1)]
    elif layout.header is True:
        counts = [names[: place + 1].count(name) for place, name in enumerate(names)]
        names = [f"{name}_{n}" if n > 1 else name for name, n in zip(names, counts)]
    if below and {len(row) for row in below} == {len(names) + 1}:
        is_last = not any(row[-1] for row in below)
        names = [*names, ""] if is_last else ["", *names]
    header = Header(names, int(has_names), len(names) - len(first[0]) if has_names else 0)
    if layout.header is None:
        _check_names(path, header, below)
        if looks_like_data(names):
            raise errors.DataError(
                f"{path}: its first line looks like data ({readable.joined(names)}): {NO_HEADER}; "
                "if these are the names, set data.header=true"
            )
    return header


def _check_names(path: Path, header: Header, below: Sequence[Sequence[str]]) -> None:
    """Refuses a column with values and without a name, but for an index, which comes first."""
    for place, name in enumerate(header.names):
        if not name and place and any(any(row[place : place + 1]) for row in below):
            raise errors.DataError(
                f"{path}, line 1: the header has no name for column {place + 1}; {OWN_NAMES}"
            )


def looks_like_data(names: Sequence[str]) -> bool:
    """Whether names are numbers that neither rise nor fall, as years do, or few fractions."""
    numbers = [number for number in map(parsed, names) if number is not None]
    signs = {np.sign(b - a) for a, b in itertools.pairwise(numbers)}
    has_fraction = any(number % 1 for number in numbers)
    return 0 in signs or len(signs) > 1 or has_fraction and len(numbers) < FEWEST_WAVELENGTHS


def header_hint(names: Sequence[str]) -> str:
    """A hint at another delimiter, or at a missing header."""
    delimiters = [mark for mark in DELIMITERS if len(names) == 1 and mark in names[0]]
    if any(parsed(name) is not None for name in names):
        return f"; its first line looks like data: {NO_HEADER}"
    return f"; set data.delimiter={delimiters[0]!r}" if delimiters else ""
