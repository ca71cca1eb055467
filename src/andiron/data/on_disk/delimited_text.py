"""The columns of a delimited text file as texts, and the line of every row.

Polars reads a file without quotes, blank lines, or lines of another length than the header.
Python's csv module, which is strict about quotes and knows the line of a row, reads any other.
"""

import codecs
import csv as csv_format
import io
import itertools
import logging
import re
import shlex
from array import array
from collections.abc import Iterable, Iterator, Mapping, MutableSequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import polars

from andiron import errors
from andiron.data.on_disk.category_names import parsed
from andiron.data.on_disk.columns import argument, Names, Request
from andiron.data.on_disk.table_files import File, Table, chosen, in_groups
from andiron.plain import readable

log = logging.getLogger("andiron")
FEWEST_WAVELENGTHS = 8  # in the header of a spectrum, such as 400.5
CHUNK_BYTES = 2**24  # read at a time
DELIMITERS = (",", ";", "\t", "|", " ")
MOST_TITLE_LINES = 10  # with the header
UNPACK = {".gz": "gzip -dc", ".bz2": "bzip2 -dc", ".xz": "xz -dc"}
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
                    "such as cp1252, cp1250, cp1251 or utf-16, or write it anew: iconv -t utf-8 "
                    f"-f cp1252 {shlex.quote(str(path))} > new.csv; zeros are of a file that was "
                    "not written whole"
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
    header = request.reading.header
    wanted = set() if header else {*(request.features or ()), *request.targets}
    stored = "utf-16" if isinstance(file, io.BytesIO) else "utf-8"  # decoded by its mark
    delimiter, first = _delimiter(path, file, wanted, request.reading.encoding or stored)
    names = [*(header or first)]
    workspace = request.workspace
    if not header:
        _name_further(path, names, rows(path, file, delimiter))
        if _look_like_data(names):
            raise errors.DataError(
                f"{path}: its first line looks like data ({readable.joined(names)}): for a file "
                "without a header, give the names of the columns in data.header=[...], or in a "
                "line above; names should not be such numbers"
            )
    features = chosen(path, request, names, ())
    places = {name: names.index(name) for name in request.columns(features)}
    begin, width = int(not header), len(names)
    if repeated := {name for name in names if name in places and names.count(name) > 1}:
        apart = [f"{name}.{at}" if name in repeated else name for at, name in enumerate(names, 1)]
        raise errors.DataError(
            f"{path}, line 1: the header has the name {' and '.join(map(repr, sorted(repeated)))} "
            "twice; give each column a name of its own: "
            f"{_cut(path, 1 + begin, request.reading.encoding or stored)}, which is read with "
            f"{argument('header', apart)}"
        )
    with suppress(UnicodeDecodeError, polars.exceptions.PolarsError):  # too many values in a line
        if lines := range(begin + 1, 1 + _number_of_lines(file, delimiter, width)):
            file.seek(0)
            source: Path | bytes = path
            if not isinstance(file, io.BufferedReader):
                source = workspace.source(iter(partial(file.read, CHUNK_BYTES), b""))
            texts = workspace.staged(_scan(source, delimiter, begin, width, places))
            frames = in_groups(path, texts, len(lines), request)
            return Table("line", features, itertools.chain([next(frames)], frames), lines)
    below = itertools.islice(rows(path, file, delimiter), begin, None)
    whole, bad = array("l"), dict[int, str]()
    normalised = workspace.source(_normalised(below, width, whole, bad))
    texts = workspace.staged(_scan(normalised, ",", 0, width, places))
    return Table("line", features, in_groups(path, texts, len(whole), request), whole, bad)


def _name_further(path: Path, names: list[str], whole: Iterable[tuple[int, list[str]]]) -> None:
    """Adds an empty name where each of the first lines has one value more than the header."""
    some = [row for _, row in itertools.islice(whole, 1, MOST_TITLE_LINES)]
    if {*map(len, some)} != {len(names) + 1}:
        return
    if not any(row[-1] for row in some):  # a mark ends each line
        names.append("")
    elif len({row[0] for row in some}) == len(some):  # not those of 0,25, which repeat
        names.insert(0, "")
        log.warning(
            "%s: has a value more in each line than names in the header; the first, such as %r, "
            "is taken for the name of the row", path, some[0][0],
        )  # fmt: skip


def _number_of_lines(file: File, delimiter: str, width: int) -> int:
    """The number of lines, if each is a row of `width` values: polars fills a short one; else 0.

    Raises: UnicodeDecodeError if they are not UTF-8.
    """
    mark, lines, delimiters, last = delimiter.encode(), 0, 0, b""
    decoder = codecs.getincrementaldecoder("utf-8")()
    file.seek(0)
    while chunk := file.read(CHUNK_BYTES):
        text = last + chunk  # \r\n may be cut in two
        if b'"' in chunk or b"\0" in chunk or text.count(b"\r", 0, -1) != text.count(b"\r\n"):
            return 0
        decoder.decode(chunk)
        lines += chunk.count(b"\n")
        delimiters += chunk.count(mark)
        last = chunk[-1:]
    decoder.decode(b"", final=True)
    lines += last != b"\n"
    return lines if last != b"\r" and delimiters == lines * (width - 1) else 0


def _scan(
    source: Path | bytes, delimiter: str, begin: int, width: int, places: Mapping[str, int]
) -> polars.LazyFrame:
    scan = polars.scan_csv(
        source, schema={str(place): polars.String for place in range(width)}, has_header=False,
        skip_lines=begin, separator=delimiter, empty_string_is_null=False, raise_if_empty=False,
        extra_columns="raise", glob=False,
    )  # fmt: skip
    return scan.select(
        polars.col(str(place)).str.strip_chars().alias(name) for name, place in places.items()
    )


def _normalised(
    below: Iterable[tuple[int, list[str]]],
    width: int,
    lines: MutableSequence[int],
    bad: dict[int, str],
) -> Iterator[bytes]:
    """The whole rows as CSV; adds their `lines`, and the `bad` lines with another number of values.
    """
    content = io.StringIO()
    writer = csv_format.writer(content)
    for line, row in below:
        if len(row) == width:
            writer.writerow(row)
            lines.append(line)
        else:
            bad[line] = f": has {len(row)} values where the header has {width} names"
        if content.tell() > CHUNK_BYTES:
            yield content.getvalue().encode()
            content.seek(0)
            content.truncate()
    yield content.getvalue().encode()


def _delimiter(
    path: Path, file: File, wanted: set[str], encoding: str
) -> tuple[str, list[str]]:
    """The delimiter that gives the names `wanted`, or most names, and the first row.

    Raises: DataError naming the line with these names if it is a later one, as below a title, or
    one that is not UTF-8.
    """
    first, named = dict.fromkeys(DELIMITERS, list[str]()), set[int]()
    for delimiter in DELIMITERS:
        try:
            for line, row in itertools.islice(rows(path, file, delimiter), MOST_TITLE_LINES):
                first[delimiter] = first[delimiter] or row
                if wanted <= {*row} and {*map(parsed, row)} == {None}:  # no numbers: names
                    named.add(line)
        except errors.DataError as error:
            if not isinstance(error.__cause__, csv_format.Error):  # quotes, of another delimiter
                raise

    def fit(delimiter: str) -> tuple[bool, bool, int]:
        names = first[delimiter]
        return wanted <= {*names}, delimiter != " " and len(names) > 1, len(names)

    best = max(DELIMITERS, key=fit)
    if not first[best]:
        next(rows(path, file, best), None)  # says why it cannot be read
        why = "is empty; its first line should have the names of the columns"
        raise errors.DataError(f"{path}: {why}")
    if len(named) == 1 and not wanted <= {*first[best]}:  # the value of a cell repeats
        line = max(named)
        raise errors.DataError(
            f"{path}, line {line}: has the names of the columns, which should be in line 1; leave "
            f"out the lines above: {_cut(path, line, encoding)}"
        )
    return best, first[best]


def _look_like_data(names: Names) -> bool:
    """Whether names are numbers that neither rise nor fall, as years do, or few fractions."""
    numbers = [number for number in map(parsed, names) if number is not None]
    rising = sorted({*numbers})
    has_fraction = any(number % 1 for number in numbers)
    is_ordered = numbers in (rising, rising[::-1])
    return not is_ordered or has_fraction and len(numbers) < FEWEST_WAVELENGTHS


def _cut(path: Path, line: int, encoding: str) -> str:
    """The command that writes the lines of a file from this one on, in its encoding."""
    source, cut = shlex.quote(str(path)), f"tail -n +{line}"
    if "\n".encode(encoding) != b"\n":  # tail would cut a character
        name = re.sub("-([bl]e)$", r"\1", encoding, flags=re.IGNORECASE)  # as iconv has it
        cut = f"iconv -f {name} -t utf-8 | {cut} | iconv -f utf-8 -t {name}"
    names = itertools.chain(["table.csv"], map("table{}.csv".format, itertools.count(2)))
    table = next(name for name in names if name != path.name and not Path(name).exists())
    return f"{UNPACK.get(path.suffix.lower(), 'cat')} {source} | {cut} > {table}"
