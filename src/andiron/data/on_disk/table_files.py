"""Opens the files of tables: compressed or not, in any encoding; names other formats."""

import gzip
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import polars

from andiron import errors
from andiron.disk import files

LIKELY_ENCODING = "cp1252"  # of Excel in the Americas and western Europe
MARKS = {  # that begin a file; the longer first
    b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16",
}  # fmt: skip
File = io.BufferedIOBase | BinaryIO


class Unreadable(errors.DataError):
    """A table that `options` of `data` may read."""

    def __init__(self, message: str, options: Mapping[str, Any]):
        super().__init__(message)
        self.options = options


@contextmanager
def opened(path: Path, content: bytes | None, encoding: str | None) -> Iterator[File]:
    """The file, or its `content`, as text in UTF-8; decompressed if it is gzip.

    Raises: DataError for a file that cannot be read, or is of another kind.
    """
    try:
        with files.opened(path) if content is None else io.BytesIO(content) as source:
            file: File = source
            start = file.read(4)
            file.seek(0)
            if start.startswith(b"\x1f\x8b"):
                file = gzip.GzipFile(fileobj=file)
                start = file.read(4)
                file.seek(0)
            _check_kind(path, start)
            marked = (name for mark, name in MARKS.items() if start.startswith(mark))
            encoding = encoding or next(marked, None)
            yield file if encoding is None else _decoded(path, file, encoding)
    except (OSError, ValueError, EOFError, polars.exceptions.PolarsError,
            polars.exceptions.PanicException) as error:  # fmt: skip
        why = files.reason(error) if isinstance(error, OSError) else errors.first_line(error)
        raise errors.DataError(f"{path}: cannot be read ({why}); name a file") from error


def _check_kind(path: Path, start: bytes) -> None:
    """Refuses a file of another format, with the line that converts it."""
    readers = {".feather": "feather", ".arrow": "feather", ".json": "json", ".orc": "orc",
               ".dta": "stata", ".sav": "spss", ".h5": "hdf"}  # fmt: skip
    reader = readers.get(path.suffix.lower())
    if start.startswith((b"PK\3\4", b"\xd0\xcf\x11\xe0")):  # zip, and files of old Office
        reader = "excel"
    if reader is not None:
        what = "a spreadsheet or an archive" if reader == "excel" else f"a {path.suffix} file"
        raise errors.DataError(
            f"{path}: is {what}, and data=csv reads text and parquet files; save it as CSV, or: "
            f"python -c \"import pandas; pandas.read_{reader}('{path.name}')"
            f".to_csv('{path.stem}.csv', index=False)\""
        )


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
