"""Which dtype a record's tensors are stored in: floats at a chosen precision, integers in as few bytes as hold them."""

from collections.abc import Mapping

import torch
from torch import Tensor

from andiron import errors
from andiron.serialization import record
from andiron.serialization.record import Record, Stored

PRECISIONS = {
    "exact": None,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "full": torch.float32,
    "double": torch.float64,
}
# of two that hold a tensor's values in as many bytes, the first
INTEGERS = (
    torch.uint8,
    torch.int8,
    torch.uint16,
    torch.int16,
    torch.uint32,
    torch.int32,
    torch.uint64,
    torch.int64,
)


def converted(
    tensors: Mapping[str, Tensor], *, precision: str, narrow: bool
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors as they will be stored, and the names of the dtypes of those that changed.

    A precision casts what is floating; integers, bools and complex numbers stay (torch's complex32 is experimental).
    Raises: DataError naming every tensor of which a finite value would not stay finite.
    """
    dtype = PRECISIONS[precision]
    if dtype is not None:
        _check_range(tensors, dtype, precision)
    cast = {
        name: tensor.to(dtype) if tensor.is_floating_point() else tensor
        for name, tensor in tensors.items()
    }
    stored = {name: _narrowest(tensor) if narrow else tensor for name, tensor in cast.items()}
    changed = {
        name: record.dtype_name(tensor.dtype)
        for name, tensor in tensors.items()
        if stored[name].dtype != tensor.dtype
    }
    return stored, changed


def restored(stored: Stored) -> Record:
    """The record, with integers back in the dtype they were of; floats stay in the dtype they are stored in.

    Raises: ValueError if a tensor cannot have been of the dtype that the file names.
    """
    integers = {record.dtype_name(dtype): dtype for dtype in INTEGERS}
    tensors = dict(stored.tensors)
    for name, original in stored.dtypes.items():
        if name not in tensors:
            raise ValueError(f"it names a dtype for {name!r}, which is not in it")
        if tensors[name].dtype in INTEGERS:
            if original not in integers or not holds(integers[original], tensors[name]):
                raise ValueError(f"{name!r} holds what is not of dtype {original!r}")
            tensors[name] = tensors[name].to(integers[original])
    return Record(tensors, stored.values)


def holds(dtype: torch.dtype, tensor: Tensor) -> bool:
    """Whether an integer dtype has every value of a tensor of integers."""
    if tensor.numel() == 0:
        return True
    limits, values = (
        torch.iinfo(dtype),
        tensor.cpu().numpy(),
    )  # torch has no min of unsigned integers
    return limits.min <= int(values.min()) and int(values.max()) <= limits.max


def too_large(tensor: Tensor, dtype: torch.dtype) -> list[float]:
    """The finite values of a floating tensor that would not be finite in another floating dtype, the largest first."""
    if torch.finfo(dtype).max >= torch.finfo(tensor.dtype).max:
        return []
    lost = tensor[_finite(tensor) & ~_finite(tensor.to(dtype))].double().tolist()
    return sorted(lost, key=abs, reverse=True)


def _finite(tensor: Tensor) -> Tensor:
    return (
        tensor if tensor.element_size() > 1 else tensor.float()
    ).isfinite()  # torch has no isfinite of 8 bits


def _narrowest(tensor: Tensor) -> Tensor:
    if tensor.dtype not in INTEGERS:
        return tensor
    fitting = [dtype for dtype in INTEGERS if holds(dtype, tensor)]
    return tensor.to(min(fitting, key=lambda dtype: (dtype.itemsize, dtype != tensor.dtype)))


def _check_range(tensors: Mapping[str, Tensor], dtype: torch.dtype, precision: str) -> None:
    lost = {
        name: too_large(tensor, dtype)
        for name, tensor in tensors.items()
        if tensor.is_floating_point()
    }
    lines = [
        f"  {name!r}: {values[0]!r}" + (f" and {len(values) - 1} more" if len(values) > 1 else "")
        for name, values in lost.items()
        if values
    ]
    if lines:
        raise errors.DataError(
            f"precision {precision!r} ends at {torch.finfo(dtype).max:g}; these would become infinite, so nothing was written:\n"
            + "\n".join(lines)
            + "\nchoose a wider precision ('bfloat16' has nearly the range of 'full'), or 'exact'"
        )
