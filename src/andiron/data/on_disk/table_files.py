"""Opens the files of tables: compressed or not, in any encoding; names other formats."""

import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import polars

from andiron import errors
from andiron.disk import files

LIKELY_ENCODING = "cp1252"  # of Excel in the Americas and western Europe
File = io.BufferedIOBase | BinaryIO


class EncodingError(errors.DataError):
    """A file that is not in UTF-8."""


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
            _check_kind(path, start)
            if encoding is None and start.startswith((b"\xff\xfe", b"\xfe\xff")):
                encoding = "utf-16"  # which begins with this mark
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
        raise encoding_error(path, content, error, "give its encoding in data.encoding") from error


def encoding_error(
    path: Path, content: bytes, error: UnicodeDecodeError, remedy: str
) -> EncodingError:
    line = content.count(b"\n", 0, error.start) + 1
    return EncodingError(
        f"{path}, line {line}: is not {error.encoding.upper()} (byte "
        f"0x{content[error.start]:02x}); {remedy}"
    )
