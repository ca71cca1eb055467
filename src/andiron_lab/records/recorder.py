"""Saves and loads records: format, precision and compression of each file."""

import gzip
import io
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import safetensors

from andiron import errors
from andiron.disk import files
from andiron.ranges import checked
from andiron.serialization import record, safetensors_codec
from andiron.serialization.record import Record
from andiron_lab.records import burnpack, json_format, messagepack, number_formats
from andiron_lab.records.stored_record import Stored, check_plain

SUFFIXES = {"safetensors": ".safetensors", "msgpack": ".mpk", "json": ".json"}
READ_ONLY = {"burnpack": ".bpk"}  # Burn's
PIECE_BYTES = 2**20
GZIP_LEVEL = 6  # zlib's default; levels 1 to 9 leave 92 % of random weights, in the same time
LARGEST_NUMBER = 64  # bytes of a number's text in JSON, with its indentation
SMALLEST_LIMIT = 16 * 2**20  # bytes of the names, values and entries of a file
# errors of readers for content that contradicts the file's name
WRONG_CONTENT = (
    ValueError, KeyError, OverflowError, RuntimeError, EOFError, zlib.error, gzip.BadGzipFile,
    safetensors.SafetensorError,
)  # fmt: skip


@checked
@dataclass(frozen=True)
class Recorder:
    """Writes records in one format, and reads records in any.

    `precision` casts floating tensors: `half`, `bfloat16`, `full`, `double`; `exact` keeps their
    dtype. `narrow` stores integers in the smallest integer dtype that holds all their values; they
    are loaded in their own dtype.
    """

    format: Literal["safetensors", "msgpack", "json"] = "safetensors"
    precision: Literal["exact", "half", "bfloat16", "full", "double"] = "exact"
    gzip: bool = False
    narrow: bool = False

    @property
    def suffix(self) -> str:
        """The suffix of this recorder's files."""
        return SUFFIXES[self.format] + (".gz" if self.gzip else "")

    def record(
        self,
        record: Record,
        path: Path | str,
        write: Callable[[Path, files.Pieces], None] = files.write_pieces,
    ) -> None:
        """Writes a record to a file with this recorder's `suffix`; the default `write` is atomic.

        Raises: DataError, before anything is written, for another suffix, or a record that the file
        cannot hold.
        """
        path = Path(path)
        if _kind(path) != (self.format, self.gzip):
            what = ("gzip of a " if self.gzip else "") + self.format
            raise errors.DataError(
                f"{path}: the name of a {what} record ends with {self.suffix}; rename it"
            )
        try:
            pieces = _pieces(self.format, _stored(record, self))
        except (TypeError, ValueError) as error:
            raise errors.DataError(str(error)) from error
        if self.gzip:
            pieces = [gzip.compress(b"".join(pieces), GZIP_LEVEL, mtime=0)]
        write(path, pieces)


def CompactRecorder() -> Recorder:
    """The smallest files: MessagePack, gzip, half floats and the narrowest integers."""
    return Recorder(format="msgpack", precision="half", gzip=True, narrow=True)


def load(path: Path, most_numbers: int) -> Record:
    """The record in a file that is not a plain safetensors file; see `andiron.serialization.load`.

    Raises: DataError if it is too large, or not of the format of its suffix.
    """
    format, is_compressed = _kind(path)
    try:
        content = _content(path, SMALLEST_LIMIT + LARGEST_NUMBER * most_numbers, is_compressed)
        stored = _READERS[format](content, files.VALUES_LIMIT + 4 * most_numbers)
        return number_formats.restored(stored.tensors, stored.dtypes, stored.values)
    except WRONG_CONTENT as error:
        what = "gzip of a " if is_compressed else ""
        raise errors.DataError(
            f"{path}: not a whole {what}{format} record "
            f"({str(error) or type(error).__name__}); restore it from a copy"
        ) from error
    except OSError as error:
        raise safetensors_codec.not_opened(path, error) from error


def _content(path: Path, limit: int, is_compressed: bool) -> bytes:
    """The content of a file, decompressed in pieces up to the limit."""
    with files.opened(path) as file:
        source = gzip.GzipFile(fileobj=file) if is_compressed else file
        content = io.BytesIO()
        while piece := source.read(PIECE_BYTES):
            content.write(piece)
            if content.tell() > limit:
                raise ValueError(f"it has more than {limit:,} bytes")
        return content.getvalue()


def format_of(path: Path) -> str | None:
    """The format of a record, by the suffix of its name; None for another file."""
    name, suffixes = path.name.removesuffix(".gz"), SUFFIXES | READ_ONLY
    return next((format for format in suffixes if name.endswith(suffixes[format])), None)


def _kind(path: Path) -> tuple[str, bool]:
    """The format and whether the file is compressed, by its name."""
    if format := format_of(path):
        return format, path.name.endswith(".gz")
    raise errors.DataError(
        f"{path}: no record format has this suffix; "
        f"use one of {', '.join(SUFFIXES.values())}, with .gz if compressed"
    )


def _stored(given: Record, recorder: Recorder) -> Stored:
    check_plain(given.values)
    check_plain(list(given.tensors), "tensors")
    for name, tensor in given.tensors.items():
        safetensors_codec.check(name, tensor)
    plain = {name: safetensors_codec.contiguous(t) for name, t in given.tensors.items()}
    tensors, dtypes = number_formats.converted(
        plain, precision=recorder.precision, narrow=recorder.narrow
    )
    return Stored(tensors, given.values, dtypes)


def _pieces(format: str, stored: Stored) -> files.Pieces:
    """The uncompressed content; a safetensors file's is never in memory as a whole."""
    if format == "msgpack":
        return [messagepack.content(stored)]
    if format == "json":
        return [json_format.content(stored)]
    metadata = record.metadata_of(stored.values, stored.dtypes)
    return safetensors_codec.chunks(stored.tensors, metadata)


def _read_unmapped(content: bytes, most_values: int) -> Stored:
    """The record in a safetensors file that was compressed."""
    entries, metadata = safetensors_codec.read_header(
        lambda offset, length: content[offset : offset + length], len(content)
    )
    tensors = {
        name: safetensors_codec.from_bytes(bytearray(content[e.begin : e.end]), e.dtype, e.shape)
        for name, e in entries.items()
    }
    dtypes, values = record.head_of(metadata)
    return Stored(tensors, values, dtypes)


# the record in the content of a file with at most so many values
_READERS: dict[str, Callable[[bytes, int], Stored]] = {
    "safetensors": _read_unmapped, "msgpack": messagepack.read, "json": json_format.read,
    "burnpack": burnpack.read,
}  # fmt: skip
