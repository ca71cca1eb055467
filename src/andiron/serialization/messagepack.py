"""Records as MessagePack: one map, in which a tensor is its dtype, its shape and its bytes."""

from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.serialization import record
from andiron.serialization.record import Stored
from andiron.serialization.safetensors_codec import as_bytes

MAX_TENSOR_BYTES = 2**32 - 1  # what the format can write as one string of bytes


def content(stored: Stored) -> bytes:
    """The content of a MessagePack file. Raises: DataError if a tensor is larger than the format can hold."""
    import msgpack  # here: most runs need none

    tensors = {}
    for name, tensor in stored.tensors.items():
        data = as_bytes(tensor)
        if data.nbytes > MAX_TENSOR_BYTES:
            raise errors.DataError(
                f"tensor {name!r} has {data.nbytes:,} bytes; MessagePack ends at {MAX_TENSOR_BYTES:,}: record as 'safetensors'"
            )
        tensors[name] = {
            "dtype": record.dtype_name(tensor.dtype),
            "shape": list(tensor.shape),
            "data": data,
        }
    packed: bytes = msgpack.packb({**stored.head(), "tensors": tensors})
    return packed


def read(content: bytes) -> Stored:
    """The record in the content of a MessagePack file.

    Extension types are refused, and a length larger than the file: nothing is made that the file does not hold.
    Raises: ValueError, or another of msgpack's errors, if it is no such file.
    """
    import msgpack

    whole = msgpack.unpackb(
        content,
        raw=False,
        strict_map_key=True,
        max_ext_len=0,
        ext_hook=_refuse,
        object_pairs_hook=record.without_repeats,
    )
    if not isinstance(whole, dict) or not isinstance(whole.get("tensors"), dict):
        raise ValueError("it is no map with tensors")
    return record.stored(
        {name: _tensor(name, entry) for name, entry in whole["tensors"].items()}, whole
    )


def _tensor(name: str, entry: Any) -> Tensor:
    if (
        not isinstance(entry, dict)
        or entry.keys() != {"dtype", "shape", "data"}
        or not isinstance(entry["data"], bytes)
    ):
        raise ValueError(f"tensor {name!r} is not a dtype, a shape and bytes")
    dtype, shape = record.dtype_of(name, entry["dtype"]), record.shape_of(name, entry["shape"])
    data = bytearray(entry["data"])
    if len(data) != shape.numel() * dtype.itemsize:
        raise ValueError(
            f"tensor {name!r} has {len(data)} bytes, which {dtype} of shape {list(shape)} has not"
        )
    return (
        torch.frombuffer(data, dtype=dtype).reshape(shape)
        if data
        else torch.empty(shape, dtype=dtype)
    )


def _refuse(code: int, data: bytes) -> None:
    raise ValueError(f"it has an extension type ({code}), which records have not")
