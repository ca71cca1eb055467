"""The safetensors format: writes and reads named tensors piece by piece.

A file is the length of its header (8 bytes, little-endian), the header (JSON: the dtype, shape and
data_offsets of each tensor), then the bytes of all tensors, which the offsets count.
Source: https://github.com/huggingface/safetensors, "Format".
"""

import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from andiron import errors
from andiron.disk import checksums, files
from andiron.plain.plain_values import Named, Plain

DTYPES = {
    torch.bool: "BOOL", torch.uint8: "U8", torch.int8: "I8",
    torch.float8_e5m2: "F8_E5M2", torch.float8_e4m3fn: "F8_E4M3", torch.float8_e8m0fnu: "F8_E8M0",
    torch.float8_e4m3fnuz: "F8_E4M3FNUZ", torch.float8_e5m2fnuz: "F8_E5M2FNUZ",
    torch.int16: "I16", torch.uint16: "U16", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int32: "I32", torch.uint32: "U32", torch.float32: "F32",
    torch.complex64: "C64", torch.float64: "F64", torch.int64: "I64", torch.uint64: "U64",
}  # fmt: skip
DTYPES_BY_NAME = {name: dtype for dtype, name in DTYPES.items()}
# errors that malformed header values raise
DAMAGE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError)
Shapes = Mapping[str, tuple[torch.dtype, Sequence[int]]]
METADATA = "__metadata__"
# of a checkpoint's frozen weights; as a key of metadata, the SHA-256 of the one beside the file
FROZEN = "frozen.safetensors"
MAX_HEADER_BYTES = 100_000_000  # the format's own limit
HEADER_VALUES = 4 * 2**20
MAX_TENSORS = 100_000  # a header of thousands of bytes for each would take gigabytes as tensors


@dataclass(frozen=True)
class Entry:
    """One tensor of a file: its bytes are [begin, end)."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


Header = tuple[dict[str, Entry], dict[str, str]]  # the entries of tensors, and the metadata


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes named tensors to a safetensors file, atomically."""
    files.write_pieces(path, chunks(tensors))


def load_tensors(path: Path, *, alone: bool = False) -> dict[str, Tensor]:
    """The named tensors in a safetensors file, on the CPU, memory-mapped.

    Unless `alone`, the weights of a checkpoint include its frozen ones, in the file beside it.
    Raises: DataError if the file is missing, truncated or not a safetensors file; FrozenFileError
    for the one beside it.
    """
    try:
        _, metadata = header_of(path)  # refuses other files before the library reads them
        tensors = safetensors.torch.load_file(path)
        is_whole = alone or FROZEN not in metadata
        return tensors if is_whole else tensors | _frozen_beside(path, metadata[FROZEN])
    except OSError as error:
        raise not_opened(path, error) from error
    except (SafetensorError, ValueError) as error:
        raise errors.DataError(
            f"{path}: not a whole safetensors file ({error}); restore it from a copy"
        ) from error


def _frozen_beside(path: Path, sha256: str) -> dict[str, Tensor]:
    """The frozen weights with this SHA-256, in the folder of the file at `path`."""
    frozen, wanted = path.with_name(FROZEN), f"{path.name} was written with SHA-256 {sha256[:64]}"
    try:
        actual = checksums.entry(frozen)["sha256"]
    except (OSError, ValueError) as error:
        raise frozen_unusable(frozen, f"{files.reason(error)}; {wanted}") from error
    if actual != sha256:
        raise frozen_unusable(frozen, f"SHA-256 is {actual}; {wanted}: damaged or replaced")
    return load_tensors(frozen, alone=True)


def frozen_unusable(path: Path, problem: str) -> errors.FrozenFileError:
    """The error of a file of frozen weights, with the remedy."""
    remedy = "copy the file from another checkpoint of the run, or use another checkpoint"
    return errors.FrozenFileError(f"{path}: {problem}; {remedy}")


def header_of(path: Path) -> Header:
    """The header of a safetensors file: see `read_header`.

    Raises: OSError; ValueError for a pipe, a device, a folder, or a header that is damaged or
    lists too many tensors for memory.
    """
    with files.opened(path) as file:

        def read(offset: int, length: int) -> bytes:
            file.seek(offset)
            return file.read(length)

        return read_header(read, os.fstat(file.fileno()).st_size)


def not_opened(path: Path, error: OSError) -> errors.DataError:
    """The error of a file that could not be opened, with the reason."""
    if path.is_dir():
        return errors.DataError(f"{path}: is a folder; name a file in it")
    reason = (error.strerror or str(error)) if path.exists() else "no such file"
    return errors.DataError(f"{path}: {reason}")


def chunks(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> Iterator[bytes | memoryview]:
    """The content of a safetensors file, piece by piece.

    The piece of a contiguous tensor on the CPU is the tensor's own memory, read when the piece is
    used; any other tensor is copied at once. Tensors that share memory are written separately.
    Raises, before the first piece: TypeError for a dtype or layout that the format does not have;
    ValueError for the name `__metadata__`.
    """
    for name, tensor in tensors.items():
        check(name, tensor)
    # widest first: the header ends on a multiple of 8, so every tensor is aligned to its dtype
    ranks = list(DTYPES)
    names = sorted(tensors, key=lambda name: (-ranks.index(tensors[name].dtype), name))
    plain = {name: contiguous(tensors[name]) for name in names}
    shapes = {name: (tensor.dtype, tensor.shape) for name, tensor in plain.items()}
    return pieces(shapes, plain.values(), metadata)


def pieces(
    shapes: Shapes, tensors: Iterable[Tensor], metadata: Mapping[str, str] | None = None
) -> Iterator[bytes | memoryview]:
    """The content of a file of tensors with these dtypes and shapes, in this order.

    The data come from `tensors`, contiguous and on the CPU: the same ones, or smaller pieces.
    """
    entries: Plain = {METADATA: dict(metadata)} if metadata else {}
    begin = 0
    for name, (dtype, shape) in shapes.items():
        end = begin + torch.Size(shape).numel() * dtype.itemsize
        entries[name] = {
            "dtype": DTYPES[dtype],
            "shape": list(shape),
            "data_offsets": [begin, end],
        }
        begin = end
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data begin at a multiple of 8 bytes
    header = len(text).to_bytes(8, "little") + text
    return itertools.chain([header], map(as_bytes, tensors))


def contiguous(tensor: Tensor) -> Tensor:
    """The values on the CPU, contiguous, conjugated and negated; the same memory where possible."""
    return tensor.detach().to("cpu").resolve_conj().resolve_neg().contiguous()


def as_bytes(tensor: Tensor) -> memoryview:
    """The bytes of a contiguous tensor on the CPU: its own memory, read-only."""
    # not reshape: a contiguous tensor of at most one element may have any stride
    flat = tensor.detach().as_strided((tensor.numel(),), (1,))
    return flat.view(torch.uint8).numpy().data.toreadonly()


def from_bytes(data: bytes | bytearray, dtype: torch.dtype, shape: Sequence[int]) -> Tensor:
    """The tensor of these bytes, as many as its shape needs; it shares their memory."""
    if not data:  # which torch.frombuffer refuses
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(data, dtype=dtype).reshape(shape)


def read_header(read: Callable[[int, int], bytes | bytearray], size: int) -> Header:
    """The entry of each tensor by name, and the metadata, of a file with `size` bytes.

    `read(offset, length)` returns bytes of the file. The data are not read.
    Raises: ValueError if the header is damaged, or the file ends before its data.
    """
    length = int.from_bytes(read(0, 8), "little") if size >= 8 else 0
    if not 2 <= length <= min(size - 8, MAX_HEADER_BYTES):
        raise ValueError(f"its header would be {length} of its {size} bytes")
    try:
        content = bytes(read(8, length))
        number = content.count(b'"data_offsets"')
        if number > MAX_TENSORS:
            raise ValueError(f"{number:,} tensors, more than the {MAX_TENSORS:,} allowed")
        whole = files.parsed_json(content, HEADER_VALUES)
        metadata = whole.pop(METADATA, None)
        entries = {name: _entry(name, stated, 8 + length) for name, stated in whole.items()}
    except DAMAGE as error:
        raise ValueError(f"its header is damaged: {error}") from error
    for name, entry in entries.items():
        if entry.end > size:
            raise ValueError(f"{name!r} ends at byte {entry.end}, the file at {size}")
    return entries, {} if metadata is None else metadata


def _entry(name: str, stated: Named, data: int) -> Entry:
    dtype, shape = DTYPES_BY_NAME[stated["dtype"]], tuple(map(int, stated["shape"]))
    begin, end = map(int, stated["data_offsets"])
    length = torch.Size(shape).numel() * dtype.itemsize
    if begin < 0 or end - begin != length:
        raise ValueError(f"{name!r} has {end - begin} bytes where its shape takes {length}")
    return Entry(dtype, shape, data + begin, data + end)


def check(name: str, tensor: Tensor) -> None:
    """Raises: TypeError for a dtype or layout that files lack; ValueError for a reserved name."""
    if name == METADATA:
        raise ValueError(f"the format reserves the name {METADATA!r}; rename the tensor")
    if tensor.layout != torch.strided:
        raise TypeError(
            f"tensor {name!r} is {tensor.layout}, which safetensors does not support; "
            "make it dense first (`to_dense()`)"
        )
    if tensor.dtype not in DTYPES:
        allowed = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        raise TypeError(
            f"tensor {name!r} is {tensor.dtype}, which safetensors does not support; "
            f"cast it to one of {allowed}"
        )
