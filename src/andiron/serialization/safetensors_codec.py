"""The safetensors format, written piece by piece: a header in JSON, then every tensor's own bytes.

Source: the description in the format's own repository, https://github.com/huggingface/safetensors.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

DTYPES = {
    torch.bool: "BOOL", torch.uint8: "U8", torch.int8: "I8", torch.float8_e5m2: "F8_E5M2", torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e8m0fnu: "F8_E8M0", torch.float8_e4m3fnuz: "F8_E4M3FNUZ", torch.float8_e5m2fnuz: "F8_E5M2FNUZ",
    torch.int16: "I16", torch.uint16: "U16", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int32: "I32", torch.uint32: "U32", torch.float32: "F32",
    torch.complex64: "C64", torch.float64: "F64", torch.int64: "I64", torch.uint64: "U64",
}  # fmt: skip
METADATA = "__metadata__"


def chunks(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> Iterator[bytes | memoryview]:
    """The content of a safetensors file, piece by piece; the pieces of tensors are their own memory, not copies.

    Tensors are on the CPU and contiguous. A piece shows what its tensor holds when the piece is read.
    Raises, before the first piece: TypeError for a dtype the format has not; ValueError for a tensor that lies otherwise.
    """
    for name, tensor in tensors.items():
        _check(name, tensor)
    # widest first: the header ends on a multiple of 8, so every tensor then starts on a multiple of its element's size
    rank = {dtype: number for number, dtype in enumerate(DTYPES)}
    names = sorted(tensors, key=lambda name: (-rank[tensors[name].dtype], name))
    header = _header({name: tensors[name] for name in names}, metadata)
    return _pieces(header, [tensors[name] for name in names])


def as_bytes(tensor: Tensor) -> memoryview:
    """The bytes of a contiguous tensor on the CPU: its own memory, read only."""
    # not reshape: a contiguous tensor of one element or none may have any stride, which then cannot be viewed as bytes
    flat = tensor.detach().as_strided((tensor.numel(),), (1,))
    return flat.view(torch.uint8).numpy().data.toreadonly()


def _pieces(header: bytes, tensors: list[Tensor]) -> Iterator[bytes | memoryview]:
    yield header
    for tensor in tensors:
        yield as_bytes(tensor)


def _header(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None) -> bytes:
    entries: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    start = 0
    for name, tensor in tensors.items():
        end = start + tensor.numel() * tensor.element_size()
        entries[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
        start = end
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _check(name: str, tensor: Tensor) -> None:
    if name == METADATA:
        raise ValueError(
            f"a tensor cannot be called {METADATA!r}: the format keeps that name for itself; call it otherwise"
        )
    if tensor.layout == torch.strided and tensor.dtype not in DTYPES:
        allowed = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        raise TypeError(
            f"tensor {name!r} is of {tensor.dtype}, which safetensors has not; it has {allowed}: cast it first"
        )
    if tensor.layout != torch.strided:
        raise TypeError(
            f"tensor {name!r} is {tensor.layout}, which safetensors has not; make it dense first (`to_dense()`)"
        )
    if (
        tensor.device.type != "cpu"
        or not tensor.is_contiguous()
        or tensor.is_conj()
        or tensor.is_neg()
    ):
        raise ValueError(
            f"tensor {name!r} is not as its bytes will be written (on {tensor.device}, stride {tensor.stride()}); "
            "give a contiguous one on the CPU, without pending conjugation or sign"
        )
