"""Records as MessagePack: one map; each tensor is a map of its dtype, shape and bytes."""

from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.serialization import safetensors_codec
from andiron.serialization.record import dtype_name
from andiron_lab.records import stored_record
from andiron_lab.records.stored_record import Stored

MAX_TENSOR_BYTES = 2**32 - 1  # the format's longest string of bytes


def content(stored: Stored) -> bytes:
    """The content of a MessagePack file; DataError if a tensor exceeds the format's limit."""
    import msgpack  # not at the top: most runs do not need it

    for name, tensor in stored.tensors.items():
        if tensor.nbytes > MAX_TENSOR_BYTES:
            raise errors.DataError(
                f"tensor {name!r} has {tensor.nbytes:,} bytes; MessagePack ends at "
                f"{MAX_TENSOR_BYTES:,}: record as 'safetensors'"
            )
    tensors = {
        name: {
            "dtype": dtype_name(tensor.dtype),
            "shape": list(tensor.shape),
            "data": safetensors_codec.as_bytes(tensor),
        }
        for name, tensor in stored.tensors.items()
    }
    return msgpack.packb({**stored.head(), "tensors": tensors})


def read(content: bytes, most_values: int) -> Stored:
    """The record in the content of a MessagePack file.

    Extension types, more than `most_values` values in lists and maps, and lengths beyond the file's
    own are refused, so that a file cannot ask for more memory than its size.
    Raises: ValueError, or another of msgpack's errors, if it is not a record.
    """
    import msgpack

    number = 0

    def counted(values: list[Any]) -> list[Any]:
        nonlocal number
        number += 1 + len(values)
        if number > most_values:
            raise ValueError(f"it has more than the {most_values:,} values allowed")
        return values

    whole = msgpack.unpackb(
        content,
        raw=False,
        strict_map_key=True,
        max_ext_len=0,
        ext_hook=_refuse,
        max_array_len=most_values,
        max_map_len=most_values,
        list_hook=counted,
        object_pairs_hook=lambda pairs: stored_record.without_repeats(counted(pairs)),
    )
    return stored_record.from_plain(whole, _tensor)


def _tensor(data: object, dtype: torch.dtype, shape: torch.Size) -> Tensor:
    if not isinstance(data, bytes):
        raise ValueError("has data that are not bytes")
    if len(data) != shape.numel() * dtype.itemsize:
        raise ValueError(f"has {len(data)} bytes, not as many as {dtype} of shape {list(shape)}")
    return safetensors_codec.from_bytes(bytearray(data), dtype, shape)


def _refuse(code: int, data: bytes) -> None:
    raise ValueError(f"it has an extension type ({code}), which records do not have")
