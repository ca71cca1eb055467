"""The columns of a delimited text file as texts, and the line of every row.

Polars reads a file without quotes, blank lines, or lines of another length than the header.
Python's csv module, which is strict about quotes and knows the line of a row, reads any other.
"""

import csv as csv_format
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import polars

from andiron import errors
from andiron.data.on_disk.category_names import parsed
from andiron.data.on_disk.columns import Request
from andiron.data.on_disk.table_files import NO_HEADER, File, Table, chosen
from andiron.plain import readable

FEWEST_WAVELENGTHS = 8  # in the header of a spectrum, such as 400.5
DELIMITERS = (",", ";", "\t", "|", " ")
NO_TEXT = re.compile("[\0\udc80-\udcff]")  # NUL, or a byte that is not UTF-8


def rows(path: Path, file: File, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The non-blank rows, each with its line number, counted from 1.

    Raises: DataError naming the line of `path` that cannot be read.
    """
    file.seek(0)
    binary = cast(BinaryIO, file)
    text = io.TextIOWrapper(binary, "utf-8-sig", "surrogateescape", newline="")
    reader = csv_format.reader(text, delimiter=delimiter, strict=True, skipinitialspace=True)
    line = 0
    try:
        for row in reader:
            if odd := NO_TEXT.search("".join(row)):
                byte = f"byte 0x{ord(odd[0]) % 256:02x}"
                raise errors.DataError(
                    f"{path}, line {reader.line_num}: is not UTF-8 ({byte}); set data.encoding, "
                    "such as cp1252 or utf-16; zeros are of a file that was not written whole"
                )
            line = reader.line_num
            if row:
                yield line, [value.strip() for value in row]
    except csv_format.Error as error:
        raise errors.DataError(
            f"{path}, after line {line}: cannot be read ({error}); correct it"
        ) from error
    finally:
        text.detach()  # which would close the file


def table(path: Path, file: File, request: Request) -> Table:
    """The chosen columns as texts; the requested ones show which delimiter is the right one.

    Raises: DataError as `rows`, or for a header that is unsuitable.
    """
    delimiter, first = _delimiter(path, file, {*(request.features or ()), *request.targets})
    names, header = [*(request.reading.header or first)], request.reading.header
    if not header and _look_like_data(names):
        raise errors.DataError(
            f"{path}: its first line looks like data ({readable.joined(names)}): {NO_HEADER}; "
            "names should not be such numbers"
        )
    features = chosen(path, request, names, ())
    places = {name: names.index(name) for name in request.columns(features)}
    for name in places:
        if names.count(name) > 1:
            what = f"the header has the name {name!r} twice"
            raise errors.DataError(f"{path}, line 1: {what}; give each column a name of its own")
    begin, width = int(not header), len(names)
    file.seek(0)
    content, frame = file.read(), None
    number = content.count(b"\n") + (not content.endswith(b"\n"))
    lines: Sequence[int] = range(begin + 1, number + 1)
    bad = dict[int, str]()
    if _is_plain(content, delimiter, number * (width - 1)):
        with suppress(polars.exceptions.PolarsError):  # too many values, or not in UTF-8
            frame = _frame(content, delimiter, begin, width, places)
    if frame is None:
        below = itertools.islice(rows(path, file, delimiter), begin, None)
        content, lines, bad = _normalised(below, width)
        frame = _frame(content, ",", 0, width, places)
    return Table("line", features, frame, lines, bad)


def _is_plain(content: bytes, delimiter: str, number: int) -> bool:
    """Whether line n is row n, and the rows have `number` delimiters: polars fills a short one."""
    return number > 0 and not (
        b'"' in content or b"\0" in content or content.count(b"\r") != content.count(b"\r\n")
        or content.count(delimiter.encode()) != number
    )  # fmt: skip


def _frame(
    content: bytes, delimiter: str, begin: int, width: int, places: Mapping[str, int]
) -> polars.DataFrame:
    frame = polars.read_csv(
        content, schema={str(place): polars.String for place in range(width)},
        columns=[*places.values()], has_header=False, skip_lines=begin, separator=delimiter,
        empty_string_is_null=False, raise_if_empty=False, extra_columns="raise",
    )  # fmt: skip
    columns = {name: frame[str(place)].str.strip_chars() for name, place in places.items()}
    return polars.DataFrame(columns)


def _normalised(
    below: Iterable[tuple[int, list[str]]], width: int
) -> tuple[bytes, Sequence[int], dict[int, str]]:
    """The whole rows as CSV, their lines, and the lines with another number of values."""
    content, lines, bad = io.StringIO(), list[int](), dict[int, str]()
    writer = csv_format.writer(content)
    for line, row in below:
        if len(row) == width:
            writer.writerow(row)
            lines.append(line)
        else:
            bad[line] = f": has {len(row)} values where the header has {width} names"
    return content.getvalue().encode(), lines, bad


def _delimiter(path: Path, file: File, wanted: set[str]) -> tuple[str, list[str]]:
    """The delimiter that gives the names `wanted`, or most names, and the first row."""
    first = dict.fromkeys(DELIMITERS, list[str]())
    for delimiter in DELIMITERS:
        with suppress(errors.DataError):  # quotes are misplaced by another delimiter
            _, first[delimiter] = next(rows(path, file, delimiter), (0, []))

    def fit(delimiter: str) -> tuple[bool, bool, int]:
        names = first[delimiter]
        return wanted <= {*names}, delimiter != " " and len(names) > 1, len(names)

    best = max(DELIMITERS, key=fit)
    if not first[best]:
        next(rows(path, file, best), None)  # says why it cannot be read
        why = "is empty; its first line should have the names of the columns"
        raise errors.DataError(f"{path}: {why}")
    return best, first[best]


def _look_like_data(names: Sequence[str]) -> bool:
    """Whether names are numbers that neither rise nor fall, as years do, or few fractions."""
    numbers = [number for number in map(parsed, names) if number is not None]
    signs = {np.sign(b - a) for a, b in itertools.pairwise(numbers)}
    has_fraction = any(number % 1 for number in numbers)
    return 0 in signs or len(signs) > 1 or has_fraction and len(numbers) < FEWEST_WAVELENGTHS
