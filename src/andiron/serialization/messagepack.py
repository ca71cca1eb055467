"""Records as MessagePack: one map; each tensor is a map of its dtype, shape and bytes."""

from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.serialization import record
from andiron.serialization.record import Stored
from andiron.serialization.safetensors_codec import as_bytes

MAX_TENSOR_BYTES = 2**32 - 1  # the format's longest string of bytes


def content(stored: Stored) -> bytes:
    """The content of a MessagePack file; DataError if a tensor exceeds the format's limit."""
    import msgpack  # not at the top: most runs do not need it

    tensors = {}
    for name, tensor in stored.tensors.items():
        data = as_bytes(tensor)
        if data.nbytes > MAX_TENSOR_BYTES:
            raise errors.DataError(
                f"tensor {name!r} has {data.nbytes:,} bytes; MessagePack ends at "
                f"{MAX_TENSOR_BYTES:,}: record as 'safetensors'"
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

    Extension types and lengths beyond the file's own are refused, so that a file cannot ask for
    more memory than its size.
    Raises: ValueError, or another of msgpack's errors, if it is not a record.
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
        raise ValueError("it is not a map with tensors")
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
            f"tensor {name!r} has {len(data)} bytes, not those of {dtype} of shape {list(shape)}"
        )
    flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return flat.reshape(shape)


def _refuse(code: int, data: bytes) -> None:
    raise ValueError(f"it has an extension type ({code}), which records do not have")
