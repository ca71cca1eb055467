"""The stored dtypes of a record's tensors.

Floats are cast to the chosen precision; integers to the narrowest dtype that holds their values.
"""

import torch
from torch import Tensor

from andiron import errors
from andiron.plain import readable
from andiron.serialization import record
from andiron.serialization.record import Record, Stored, Tensors

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
        name: record.dtype_name(tensor.dtype)
        for name, tensor in tensors.items()
        if stored[name].dtype != tensor.dtype
    }
    return stored, changed


def restored(stored: Stored) -> Record:
    """The record with integers in their original dtype; floats keep their stored dtype.

    Raises: ValueError if a tensor cannot have had the dtype named in the file.
    """
    tensors = dict(stored.tensors)
    for name, original in stored.dtypes.items():
        if name not in tensors:
            raise ValueError(f"it names a dtype for {name!r}, which it does not have")
        if tensors[name].dtype in INTEGERS:
            dtype = record.NAMED_DTYPES.get(original)
            if dtype not in INTEGERS or not holds(dtype, tensors[name]):
                raise ValueError(f"{name!r} has values that dtype {original!r} does not have")
            tensors[name] = tensors[name].to(dtype)
    return Record(tensors, stored.values)


def holds(dtype: torch.dtype, tensor: Tensor) -> bool:
    """Whether an integer dtype holds every value of a tensor of integers."""
    if tensor.numel() == 0:
        return True
    values = tensor.cpu().numpy()  # torch has no min of unsigned integers
    limits = torch.iinfo(dtype)
    return limits.min <= int(values.min()) and int(values.max()) <= limits.max


def too_large(tensor: Tensor, dtype: torch.dtype) -> list[float]:
    """The finite floats that would become infinite in another floating dtype, largest first."""
    if not tensor.is_floating_point() or torch.finfo(dtype).max >= torch.finfo(tensor.dtype).max:
        return []
    lost = tensor[_finite(tensor) & ~_finite(tensor.to(dtype))].double().tolist()
    return sorted(lost, key=abs, reverse=True)


def _finite(tensor: Tensor) -> Tensor:
    # torch has no isfinite of 8 bits
    return (tensor if tensor.element_size() > 1 else tensor.float()).isfinite()


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
