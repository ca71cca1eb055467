"""Records to files and back: which format, at what precision, compressed or not."""

import gzip
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import torch

from andiron import errors, files
from andiron.serialization import (
    json_format,
    messagepack,
    number_formats,
    record,
    tensor_files,
    safetensors_codec,
)
from andiron.serialization.record import Record, Stored

SUFFIXES = {"safetensors": ".safetensors", "msgpack": ".mpk", "json": ".json"}
TITLES = {"safetensors": "safetensors", "msgpack": "MessagePack", "json": "JSON"}
GZIP_LEVEL = 6  # zlib's own default; of random weights 1 to 9 leave 92 %, in the same time
# what the readers raise of a file that is not what its name says
WRONG_CONTENT = (
    ValueError, KeyError, OverflowError, RecursionError, RuntimeError, EOFError, zlib.error, gzip.BadGzipFile,
    safetensors.SafetensorError,
)  # fmt: skip


@dataclass(frozen=True)
class Recorder:
    """Writes records in one format, and reads any.

    `precision` casts floating tensors: `half`, `bfloat16`, `full`, `double`; `exact` leaves them. `narrow` stores integers in
    the smallest integer dtype that has all their values; they come back in their own.
    """

    format: str = "safetensors"
    precision: str = "exact"
    gzip: bool = False
    narrow: bool = False

    def __post_init__(self) -> None:
        for option, allowed in ("format", SUFFIXES), ("precision", number_formats.PRECISIONS):
            found = getattr(self, option)
            if found not in allowed:
                raise ValueError(
                    f"{option} is {found!r}; choose from {', '.join(allowed)}{errors.nearest(found, allowed)}"
                )

    @property
    def suffix(self) -> str:
        """How the names of this recorder's files end."""
        return SUFFIXES[self.format] + (".gz" if self.gzip else "")

    def record(self, record: Record, path: Path | str) -> None:
        """Writes a record to a file, whole or not at all; the file's name ends with `suffix`.

        Raises: DataError, before anything is written, if the name ends otherwise or the record holds what the file cannot.
        """
        path = Path(path)
        if _kind(path) != (self.format, self.gzip):
            what = f"gzip of {TITLES[self.format]}" if self.gzip else TITLES[self.format]
            raise errors.DataError(
                f"{path}: a record in {what} has a name that ends with {self.suffix}; name it so"
            )
        pieces = _pieces(self, _stored(record, self))
        files.write_pieces(
            path, [gzip.compress(b"".join(pieces), GZIP_LEVEL, mtime=0)] if self.gzip else pieces
        )

    def load(self, path: Path | str) -> Record:
        """The record in a file of any recorder: see `load`."""
        return load(path)


def CompactRecorder() -> Recorder:
    """The smallest files: MessagePack, gzip, half floats and the narrowest integers."""
    return Recorder(format="msgpack", precision="half", gzip=True, narrow=True)


def load(path: Path | str) -> Record:
    """The record in a file, on the CPU; its name says the format. Plain safetensors files are memory-mapped.

    Floats come in the dtype they are stored in, integers in their own. Files of tensors from elsewhere load too.
    Raises: DataError if the file is missing, or not what its name says.
    """
    path = Path(path)
    format, is_compressed = _kind(path)
    try:
        if format == "safetensors" and not is_compressed:
            return number_formats.restored(_mapped(path))
        content = path.read_bytes()
        content = gzip.decompress(content) if is_compressed else content
        read = {"safetensors": _unmapped, "msgpack": messagepack.read, "json": json_format.read}[
            format
        ]
        return number_formats.restored(read(content))
    except WRONG_CONTENT as error:
        what = "gzip of a " if is_compressed else ""
        why = str(error) or type(error).__name__
        raise errors.DataError(
            f"{path}: not a whole {what}{TITLES[format]} record ({why}); restore it from a copy"
        ) from error
    except OSError as error:
        raise errors.DataError(f"{path}: {tensor_files.why_not_open(path, error)}") from error


def _kind(path: Path) -> tuple[str, bool]:
    """The format and whether it is compressed, as a file's name says."""
    for format, suffix in SUFFIXES.items():
        if path.name.endswith((suffix, f"{suffix}.gz")):
            return format, path.name.endswith(".gz")
    *others, last = SUFFIXES.values()
    raise errors.DataError(
        f"{path}: its name does not say what record it is; end it with {', '.join(others)} or {last}, and .gz if compressed"
    )


def _stored(found: Record, recorder: Recorder) -> Stored:
    problems = [
        f"tensor {name!r} is {tensor.layout if tensor.layout != torch.strided else tensor.dtype}"
        for name, tensor in found.tensors.items()
        if tensor.layout != torch.strided or tensor.dtype not in safetensors_codec.DTYPES
    ]
    if problems:
        allowed = ", ".join(map(record.dtype_name, safetensors_codec.DTYPES))
        raise errors.DataError(
            f"{'; '.join(problems)}; a record has dense tensors of {allowed}: convert it first"
        )
    try:
        record.check_plain(found.values)
        for name in found.tensors:
            record.check_text(name, "tensor")
    except ValueError as error:
        raise errors.DataError(str(error)) from error
    plain = {name: tensor_files.plain(tensor) for name, tensor in found.tensors.items()}
    tensors, dtypes = number_formats.converted(
        plain, precision=recorder.precision, narrow=recorder.narrow
    )
    return Stored(tensors, found.values, dtypes)


def _pieces(recorder: Recorder, stored: Stored) -> files.Pieces:
    """The content of the file before it is compressed; a safetensors file's is never in memory as a whole."""
    if recorder.format == "msgpack":
        return [messagepack.content(stored)]
    if recorder.format == "json":
        return [json_format.content(stored)]
    if safetensors_codec.METADATA in stored.tensors:
        raise errors.DataError(
            f"tensor {safetensors_codec.METADATA!r} has a name that safetensors keeps for itself; rename it"
        )
    metadata = {key: json.dumps(value, ensure_ascii=False) for key, value in stored.head().items()}
    return tensor_files.pieces(
        stored.tensors, {"format": "pt", **metadata}
    )  # "pt": what other readers look for


def _mapped(path: Path) -> Stored:
    tensors = tensor_files.load_tensors(path)
    with safetensors.safe_open(path, framework="pt") as file:
        return _with_metadata(tensors, file.metadata())


def _unmapped(content: bytes) -> Stored:
    dtypes = {name: dtype for dtype, name in safetensors_codec.DTYPES.items()}
    tensors = {}
    for name, entry in safetensors.deserialize(content):  # type: ignore[no-untyped-call]
        dtype, data = dtypes[entry["dtype"]], entry["data"]
        empty = torch.empty(entry["shape"], dtype=dtype)
        tensors[name] = (
            torch.frombuffer(data, dtype=dtype).reshape(entry["shape"]) if data else empty
        )
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return _with_metadata(tensors, header.get(safetensors_codec.METADATA))


def _with_metadata(tensors: dict[str, Any], metadata: dict[str, str] | None) -> Stored:
    if not metadata or record.VERSION_KEY not in metadata:
        return Stored(tensors, {}, {})
    head = {key: json.loads(metadata[key]) for key in (record.VERSION_KEY, "dtypes", "values")}
    return record.stored(tensors, head)
