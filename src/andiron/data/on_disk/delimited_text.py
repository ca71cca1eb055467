"""The rows of a delimited text file, with their lines, and its header."""

import csv as csv_format
import io
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from andiron import errors
from andiron.disk import files

DELIMITERS = (",", ";", "\t", "|")
log = logging.getLogger("andiron")


def rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, each with the number of its line, counted from 1.

    Raises: DataError for a file that cannot be read, or is no such text.
    """
    try:
        content = files.opened(path)
    except (OSError, ValueError) as error:
        why = files.reason(error)
        raise errors.DataError(f"{path}: cannot be read ({why}); name a file") from error
    try:
        with io.TextIOWrapper(content, encoding="utf-8-sig", newline="") as file:
            reader = csv_format.reader(file, delimiter=delimiter, strict=True)
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


def delimiter_of(path: Path, wanted: Sequence[str]) -> str:
    """The first of DELIMITERS that gives a header with all the names `wanted`.

    Without one, it is that of the longest header.
    """
    headers: dict[str, list[str]] = {}
    for delimiter in DELIMITERS:
        with suppress(errors.DataError):  # quotes are misplaced by another delimiter
            _, headers[delimiter] = next(rows(path, delimiter), (0, []))
    fitting = [each for each, header in headers.items() if {*wanted} <= {*header}]
    if not fitting:
        return max(headers, key=lambda each: len(headers[each]), default=DELIMITERS[0])
    if fitting[0] != DELIMITERS[0]:
        log.info("%s: columns are separated by %r", path, fitting[0])
    return fitting[0]


def check_header(path: Path, line: int, header: list[str], wanted: Sequence[str]) -> None:
    """Raises a DataError if the header is empty, repeats a name, or lacks one of those `wanted`."""
    if not header:
        raise errors.DataError(
            f"{path}: is empty; its first line should have the names of the columns"
        )
    for place, name in enumerate(header, start=1):
        if not name or header.index(name) != place - 1:
            what = f"the name {name!r} twice" if name else f"no name for column {place}"
            raise errors.DataError(
                f"{path}, line {line}: the header has {what}; give each column a name of its own"
            )
    for name in wanted:
        if name not in header:
            hint = errors.nearest(name, header) or _other_delimiter(header)
            raise errors.DataError(
                f"{path}: has no column {name!r}{hint}; its columns are: {', '.join(header)}"
            )


def _other_delimiter(header: list[str]) -> str:
    """A hint at the delimiter of a header that was read as one column."""
    found = [each for each in DELIMITERS if len(header) == 1 and each in header[0]]
    return f"; set data.delimiter={found[0]!r}" if found else ""
