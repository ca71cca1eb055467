"""The stored dtypes of a record's tensors.

Floats are cast to the chosen precision; integers to the narrowest dtype that holds their values.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.plain import readable
from andiron.serialization.matching import holds, too_large
from andiron.serialization.record import Record, Tensors, dtype_name
from andiron_lab.records.stored_record import NAMED_DTYPES, check_plain

PRECISIONS = {
    "exact": None,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "full": torch.float32,
    "double": torch.float64,
}
# the first of two with the same width that both hold the values is chosen
INTEGERS = (
    torch.uint8, torch.int8, torch.uint16, torch.int16,
    torch.uint32, torch.int32, torch.uint64, torch.int64,
)  # fmt: skip


def converted(
    tensors: Tensors, *, precision: str, narrow: bool
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors to store, and the names of the original dtypes of the converted ones.

    A precision casts floating tensors; integers, bools and complex tensors keep their dtype
    (torch's complex32 is experimental).
    Raises: DataError naming every tensor with a finite value that would become infinite.
    """
    dtype = PRECISIONS[precision]
    if dtype is not None:
        _check_range(tensors, dtype, precision)
    stored = {}
    for name, tensor in tensors.items():
        stored[name] = tensor.to(dtype) if tensor.is_floating_point() else tensor
        if narrow and tensor.dtype in INTEGERS:
            stored[name] = tensor.to(_narrowest(tensor))
    changed = {
        name: dtype_name(tensor.dtype)
        for name, tensor in tensors.items()
        if stored[name].dtype != tensor.dtype
    }
    return stored, changed


def restored(
    tensors: Tensors, dtypes: Mapping[str, str], values: dict[str, Any]
) -> Record:
    """The record with integers in their original dtype; floats keep their stored dtype.

    Raises: ValueError if a tensor cannot have had the dtype named in the file.
    """
    check_plain(values)
    tensors = dict(tensors)
    for name, original in dtypes.items():
        if name not in tensors:
            raise ValueError(f"it names a dtype for {name!r}, which it does not have")
        if tensors[name].dtype in INTEGERS:
            dtype = NAMED_DTYPES.get(original)
            if dtype not in INTEGERS or not holds(dtype, tensors[name]):
                raise ValueError(f"{name!r} has values that dtype {original!r} does not have")
            tensors[name] = tensors[name].to(dtype)
    return Record(tensors, values)


def _narrowest(tensor: Tensor) -> torch.dtype:
    fitting = [dtype for dtype in INTEGERS if holds(dtype, tensor)]
    return min(fitting, key=lambda dtype: (dtype.itemsize, dtype != tensor.dtype))


def _check_range(tensors: Tensors, dtype: torch.dtype, precision: str) -> None:
    lines = [
        f"  {name!r}: {readable.joined(lost, 1)}"
        for name, tensor in tensors.items()
        if (lost := too_large(tensor, dtype))
    ]
    if lines:
        raise errors.DataError(
            f"precision {precision!r} ends at {torch.finfo(dtype).max:g}; "
            "these would become infinite, so nothing was written:\n"
            + "\n".join(lines)
            + "\nchoose a wider precision ('bfloat16' has nearly the range of 'full'), or 'exact'"
        )
