"""The columns of a delimited text file, and the line of every row.

Polars reads the columns. A file with quotes, blank lines, or lines of another
length than the header is read by Python's csv module, which tracks line numbers.
"""

import array
import csv as csv_format
import io
import itertools
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import polars

from andiron import errors
from andiron.data.on_disk.column_values import MOST_LOOKED_AT
from andiron.data.on_disk.columns import Layout, Reading, Request, parsed
from andiron.data.on_disk.table_files import LIKELY_ENCODING, Choose, File, Table
from andiron.plain import readable

FEWEST_WAVELENGTHS = 8  # in the header of a spectrum, such as 400.5
BLOCK_ROWS = 2**14
DELIMITERS = (",", ";", "\t", "|", " ")
FIRST_ROWS = 10  # in which the names of the columns are looked for
NO_HEADER = (
    "for a file without a header, give the names of the columns in data.header=[...], or "
    "data.header=false, which names them column_1, column_2, ..."
)
NO_TEXT = re.compile("[\0\udc80-\udcff]")  # NUL, or a byte that is not UTF-8
ESCAPED = (
    "a quote within a text has a backslash before it, as Spark writes it: write the table as "
    "parquet, or with .option('escape', '\"')"
)
OWN_NAMES = "give each column a name of its own, or set data.header=true, which numbers them"
log = logging.getLogger("andiron")


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
                raise _not_text(f"{path}, line {reader.line_num}", odd[0])
            line = reader.line_num
            if row:
                yield line, [value.strip() for value in row]
    except csv_format.Error as error:
        file.seek(0)
        is_escaped = b'\\"' in file.read()
        raise errors.DataError(
            f"{path}, after line {line}: cannot be read ({error}); "
            f"{ESCAPED if is_escaped else 'correct it'}"
        ) from error
    finally:
        text.detach()  # which would close the file


def _not_text(place: str, odd: str) -> errors.DataError:
    if odd == "\0":
        return errors.DataError(
            f"{place}: has NUL bytes, as a file that was not written whole, or is in UTF-16; "
            "restore it, or set data.encoding=utf-16"
        )
    return errors.DataError(
        f"{place}: is not UTF-8 (byte 0x{ord(odd) - 0xDC00:02x}); set data.encoding, such as "
        f"{LIKELY_ENCODING}, or convert it: iconv -f ... -t utf-8"
    )


def table(path: Path, file: File, request: Request, choose: Choose) -> Table:
    """The chosen columns; the requested ones show which delimiter is the right one.

    A feature whose first values are all numbers is read as numbers, others as text.
    Raises: DataError as `rows`, or for a header that is unsuitable.
    """
    wanted = [*(request.features or ()), *request.texts]
    delimiter, begin = _names_in(path, file, wanted, request.layout)
    first = [row for _, row in itertools.islice(rows(path, file, delimiter), MOST_LOOKED_AT)]
    if begin:
        log.warning("%s: left out, above the names of the columns: %r", path, first[:begin])
    names = _header(path, first[begin:], request.layout)
    begin += request.layout.header in (None, True)
    features, others = choose(names, ())
    places = {name: names.index(name) for name in (*features, *others)}
    for name in places:
        if names.count(name) > 1:
            what = f"the header has the name {name!r} twice"
            raise errors.DataError(f"{path}, line 1: {what}; {OWN_NAMES}")
    # an index, which comes first, needs no name, nor does a column without values
    nameless = {f"\n{place}": place for place, name in enumerate(names) if place and not name}
    whole = [row for row in first[begin:] if len(row) == len(names)]
    texts = {name: [row[places[name]] for row in whole] for name in features if name not in others}
    places |= nameless
    numbers = _numbers(texts, request.reading)
    read = _plain_table(file, delimiter, begin, len(names), places, numbers)
    if read is None:
        below = itertools.islice(rows(path, file, delimiter), begin, None)
        read = _table_by_row(below, len(names), places)
    for name, place in nameless.items():
        for row in (read.frame[name] != "").arg_true():
            raise errors.DataError(
                f"{path}, line {read.lines[row]}: has {read.frame[name][row]!r} in column "
                f"{place + 1}, for which the header has no name; {OWN_NAMES}"
            )
    return read._replace(features=features)


def _numbers(columns: Mapping[str, Sequence[str]], reading: Reading) -> list[str]:
    """The columns that have plain numbers alone in the first rows."""
    if reading.decimal == "," or reading.missing_numbers or reading.date_format:
        return []
    values: dict[str, Any] = {name: [*map(parsed, texts)] for name, texts in columns.items()
                              if reading.kinds.get(name, "number") == "number"}  # fmt: skip
    return [name for name, known in values.items()
            if None not in known and np.isfinite(known).any()]  # fmt: skip


def _table_by_row(
    rows: Iterable[tuple[int, list[str]]], width: int, places: Mapping[str, int]
) -> Table:
    """The columns as text; blank rows are left out."""
    lines, bad = array.array("q"), dict[int, str]()
    schema = dict.fromkeys(places, polars.String)
    frames, below = [polars.DataFrame(schema=schema)], iter(rows)
    while block := [*itertools.islice(below, BLOCK_ROWS)]:
        chosen = []
        for line, row in block:
            if len(row) == width:
                lines.append(line)
                chosen.append([row[place] for place in places.values()])
            else:
                bad[line] = f": has {len(row)} values where the header has {width} names"
        frames.append(polars.DataFrame(chosen, schema=schema, orient="row"))
    return Table("line", (), polars.concat(frames, rechunk=True), lines, bad)


def _plain_table(
    file: File, delimiter: str, begin: int, width: int, places: Mapping[str, int],
    numbers: Sequence[str],
) -> Table | None:  # fmt: skip
    """The columns of a file without quotes; each of `numbers` is float64 if all of it is finite.

    None if its line n is not row n, or a line has too many or, which polars fills, too few values.
    """
    file.seek(0)
    content = file.read()
    lines = content.count(b"\n") + (not content.endswith(b"\n"))
    if (
        width == 1 or b'"' in content or b"\0" in content
        or content.count(b"\r") != content.count(b"\r\n")
        or content.count(delimiter.encode()) != lines * (width - 1)
    ):  # fmt: skip
        return None
    labels = {place: f"\n{place}" for place in range(width)}
    labels |= {place: name for name, place in places.items()}
    texts: dict[str, Any] = dict.fromkeys(labels.values(), polars.String)

    def read(chosen: Iterable[str], schema: dict[str, Any]) -> polars.DataFrame:
        return polars.read_csv(
            content, schema=schema, columns=[places[name] for name in chosen], has_header=False,
            skip_lines=begin, separator=delimiter, empty_string_is_null=False, quote_char=None,
            raise_if_empty=False, extra_columns="raise", ignore_errors=True,
        )[[*chosen]].with_columns(polars.col(polars.String).str.strip_chars())  # fmt: skip

    with suppress(polars.exceptions.PolarsError):  # too many values, or not in UTF-8
        frame = read(places, texts | dict.fromkeys(numbers, polars.Float64))
        odd = [name for name in numbers
               if not frame[name].alias("").is_finite().fill_null(False).all()]  # fmt: skip
        if odd:
            frame = frame.with_columns(*read(odd, texts))
        return Table("line", (), frame, range(begin + 1, lines + 1))
    return None


def _names_in(path: Path, file: File, wanted: Sequence[str], layout: Layout) -> tuple[str, int]:
    """The delimiter that gives the names `wanted`, or most names; the rows of remarks above."""
    fits = {layout.delimiter or DELIMITERS[0]: (False, False, 0, 0)}
    for delimiter in layout.delimiter or DELIMITERS:
        with suppress(errors.DataError):  # quotes are misplaced by another delimiter
            most = 0
            for above, (_, row) in zip(range(FIRST_ROWS), rows(path, file, delimiter)):
                number = len(row) - row.count("")
                has_all = {*wanted} <= {*row} and number > most
                if has_all or not above:
                    fits[delimiter] = has_all, delimiter != " " and len(row) > 1, len(row), -above
                if has_all:
                    break
                most = max(most, number)
    best = max(fits, key=fits.__getitem__)
    if best not in (DELIMITERS[0], layout.delimiter):
        log.info("%s: columns are separated by %r", path, best)
    return best, -fits[best][-1] if layout.header in (None, True) else 0


def _header(path: Path, first: Sequence[list[str]], layout: Layout) -> list[str]:
    """The names in the options or in the first line that is not blank."""
    if not first:
        why = "is empty; its first line should have the names of the columns"
        raise errors.DataError(f"{path}: {why}")
    names = list(layout.header if isinstance(layout.header, Sequence) else first[0])
    if layout.header is False:
        names = [f"column_{place}" for place in range(1, len(first[0]) + 1)]
    elif layout.header is True:
        counts = [first[0][: place + 1].count(name) for place, name in enumerate(names)]
        names = [f"{name}_{n}" if n > 1 else name for name, n in zip(names, counts)]
        names[1:] = [name or f"column_{place}" for place, name in enumerate(names[1:], 2)]
    elif layout.header is None and _look_like_data(names):
        raise errors.DataError(
            f"{path}: its first line looks like data ({readable.joined(names)}): {NO_HEADER}; "
            "if these are the names, set data.header=true"
        )
    return names


def _look_like_data(names: Sequence[str]) -> bool:
    """Whether names are numbers that neither rise nor fall, as years do, or few fractions."""
    numbers = [number for number in map(parsed, names) if number is not None]
    signs = {np.sign(b - a) for a, b in itertools.pairwise(numbers)}
    has_fraction = any(number % 1 for number in numbers)
    return 0 in signs or len(signs) > 1 or has_fraction and len(numbers) < FEWEST_WAVELENGTHS
