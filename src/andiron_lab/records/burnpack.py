"""Reads Burn's own record files, `.bpk`: the tensors of a module or an optimizer.

A file is the magic number `NRUB`, a version (2 bytes) and the length of the metadata (4 bytes), all
little-endian; the metadata (CBOR: dtype, shape and data_offsets of each tensor, texts, scalars);
and, from the next multiple of 256 bytes on, the bytes of all tensors, which the offsets count.
Source: crate burn-pack 0.22.1, src/base.rs and src/writer.rs.
"""

import math
import struct
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from andiron.serialization import safetensors_codec
from andiron.serialization.record import dtype_name
from andiron_lab.records import stored_record
from andiron_lab.records.stored_record import Stored

MAGIC, VERSION = b"NRUB", 1
HEADER = struct.Struct("<4sHI")
ALIGNMENT = 256  # bytes
MAX_DEPTH = 16  # of lists and maps in the metadata; Burn's have four
INLINE, WIDTHS = 24, {24: 1, 25: 2, 26: 4, 27: 8}  # CBOR: smaller numbers are in the first byte
CONSTANTS = {20: False, 21: True, 22: None}
FLOATS = {25: ">e", 26: ">f", 27: ">d"}
STORED_AS = {"Native": torch.uint8, "U8": torch.uint8, "U32": torch.uint32}  # booleans


def read(content: bytes, most_values: int) -> Stored:
    """The record in the content of a `.bpk` file, in Burn's layout.

    The values are `layout`, and Burn's `metadata` and `scalars`, if there are any.
    Raises: ValueError if it is not such a file, has tensors that share bytes or are quantised, or
    more than `most_values` values in its metadata.
    """
    if len(content) < HEADER.size or content[:4] != MAGIC:
        raise ValueError("it does not begin with the magic number of burnpack")
    _, version, length = HEADER.unpack_from(content)
    if version != VERSION:
        raise ValueError(f"it has version {version} of burnpack; this andiron reads {VERSION}")
    end = HEADER.size + length
    if not 0 < length <= min(len(content) - HEADER.size, safetensors_codec.MAX_HEADER_BYTES):
        raise ValueError(f"its metadata would be {length:,} of its {len(content):,} bytes")
    whole = _Cbor(content[HEADER.size : end], most_values).decoded()
    entries = whole.get("tensors") if isinstance(whole, dict) else None
    if not isinstance(entries, dict) or len(entries) > safetensors_codec.MAX_TENSORS:
        raise ValueError("its metadata have no tensors, or too many")
    begin = -(-end // ALIGNMENT) * ALIGNMENT
    tensors = _tensors(entries, memoryview(content)[begin:])
    extra = {name: whole[name] for name in ("metadata", "scalars") if whole.get(name)}
    values = {"layout": "burn", **extra}
    stored_record.check_plain(values)
    return Stored(tensors, values, {})


def _tensors(entries: Mapping[str, object], data: memoryview) -> dict[str, Tensor]:
    tensors = {}
    used = 0
    for name, entry in entries.items():
        dtype, is_bool = _dtype(name, entry)
        match entry:
            case {"shape": [*shape], "data_offsets": [int(begin), int(end)]} if all(
                type(size) is int and 0 <= size < 2**63 for size in shape
            ):
                pass
            case _:
                raise ValueError(f"tensor {name!r} has no shape, or no offsets")
        needed = math.prod(shape) * dtype.itemsize
        used += needed
        if not 0 <= begin <= end <= len(data) or end - begin != needed:
            raise ValueError(
                f"tensor {name!r} is at bytes {begin} to {end} of {len(data)}; its shape "
                f"{shape} of {dtype_name(dtype)} takes {needed}"
            )
        if used > len(data):
            raise ValueError(f"tensor {name!r} shares bytes with others")
        tensor = safetensors_codec.from_bytes(bytearray(data[begin:end]), dtype, shape)
        tensors[name] = tensor.to(torch.int64) != 0 if is_bool else tensor
    return tensors


def _dtype(name: str, entry: object) -> tuple[torch.dtype, bool]:
    """The dtype of a tensor's bytes, and whether they are booleans."""
    match entry:
        case {"dtype": "Flex32"}:
            return torch.float32, False
        case {"dtype": str(dtype)} if dtype in safetensors_codec.DTYPES_BY_NAME:
            return safetensors_codec.DTYPES_BY_NAME[dtype], False
        case {"dtype": {"Bool": str(stored)}} if stored in STORED_AS:
            return STORED_AS[stored], True
        case {"dtype": {"QFloat": _}}:
            raise ValueError(f"tensor {name!r} is quantised; dequantise the module before saving")
    raise ValueError(f"tensor {name!r} has no dtype that records have")


class _Cbor:
    """Decodes CBOR of definite lengths: numbers, texts, booleans, null, lists, maps.

    Source: RFC 8949, section 3.
    """

    def __init__(self, content: bytes, most_values: int):
        self._content, self._position, self._left = content, 0, most_values

    def decoded(self) -> Any:
        """The one value. Raises: ValueError if there is another after it, or it is malformed."""
        value = self._value(0)
        if self._position != len(self._content):
            raise ValueError("its metadata do not end where they should")
        return value

    def _value(self, depth: int) -> Any:
        self._left -= 1
        if depth > MAX_DEPTH or self._left < 0:
            raise ValueError("its metadata have more values, or levels, than allowed")
        first = self._take(1)[0]
        kind, info = first >> 5, first & 31
        if kind == 7 and info in FLOATS:
            return struct.unpack(FLOATS[info], self._take(WIDTHS[info]))[0]
        if kind == 7 and info in CONSTANTS:
            return CONSTANTS[info]
        if info >= INLINE and info not in WIDTHS:
            raise ValueError("its metadata have lengths that Burn does not write")
        number = info if info < INLINE else int.from_bytes(self._take(WIDTHS[info]), "big")
        match kind:
            case 0:
                return number
            case 1:
                return -1 - number
            case 3:
                return self._take(number).decode()
            case 4:
                return [self._value(depth + 1) for _ in range(number)]
            case 5:
                pairs = [(self._key(), self._value(depth + 1)) for _ in range(number)]
                return stored_record.without_repeats(pairs)
        raise ValueError(f"its metadata have CBOR's kind {kind}, which Burn does not write")

    def _key(self) -> str:
        if not isinstance(key := self._value(MAX_DEPTH), str):
            raise ValueError("its metadata have a key that is not a text")
        return key

    def _take(self, number: int) -> bytes:
        begin, self._position = self._position, self._position + number
        if self._position > len(self._content):
            raise ValueError("its metadata end too early")
        return self._content[begin : self._position]
