"""Records as readable JSON: tensors are nested lists of their values, exact to the bit.

JSON has neither infinity nor NaN. They are strings here: "inf", "-inf", and "nan:7fc00000" with the
bits of that NaN.
"""

import json
from typing import Any

import torch
from torch import Tensor

from andiron.serialization import record
from andiron.serialization.record import Stored

BITS = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}


def content(stored: Stored) -> bytes:
    """The content of a JSON file, with one row of numbers a line."""
    head = [
        f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in stored.head().items()
    ]
    entries = ",\n".join(
        f"    {json.dumps(name, ensure_ascii=False)}: {_entry(t)}"
        for name, t in stored.tensors.items()
    )
    tensors = f'  "tensors": {{\n{entries}\n  }}' if entries else '  "tensors": {}'
    return ("{\n" + ",\n".join([*head, tensors]) + "\n}\n").encode()


def read(content: bytes) -> Stored:
    """The record in the content of a JSON file.

    Raises: ValueError or RecursionError if it is not a record.
    """
    whole = json.loads(content, object_pairs_hook=record.without_repeats, parse_constant=_refuse)
    if not isinstance(whole, dict) or not isinstance(whole.get("tensors"), dict):
        raise ValueError("it is not an object with tensors")
    return record.stored(
        {name: _tensor(name, entry) for name, entry in whole["tensors"].items()}, whole
    )


def _entry(tensor: Tensor) -> str:
    dtype = json.dumps(record.dtype_name(tensor.dtype))
    data = _rows(_values(tensor), "      ")
    return f'{{"dtype": {dtype}, "shape": {json.dumps(list(tensor.shape))}, "data": {data}}}'


def _rows(values: Any, indent: str) -> str:
    if not isinstance(values, list) or not any(
        isinstance(value, list) and value for value in values
    ):
        return json.dumps(values)
    inner = ",\n".join(indent + _rows(value, indent + "  ") for value in values)
    return f"[\n{inner}\n{indent[:-2]}]"


def _values(tensor: Tensor) -> Any:
    """Nested lists of numbers; a complex number is a list of two numbers."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if not tensor.is_floating_point():
        return tensor.tolist()
    values = tensor.double()
    special = ~values.isfinite()
    if not special.any():
        return values.tolist()
    bits = tensor.view(BITS[tensor.element_size()]).flatten().tolist()
    flat = values.flatten().tolist()
    for place in special.flatten().nonzero().flatten().tolist():
        is_nan = flat[place] != flat[place]
        digits = f"{bits[place]:0{2 * tensor.element_size()}x}"
        flat[place] = f"nan:{digits}" if is_nan else str(flat[place])
    return _nested(flat, list(tensor.shape))


def _nested(flat: list[Any], shape: list[int]) -> Any:
    if not shape:
        return flat[0]
    step = len(flat) // shape[0]
    return [
        _nested(flat[place * step : (place + 1) * step], shape[1:]) for place in range(shape[0])
    ]


def _tensor(name: str, entry: Any) -> Tensor:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data"}:
        raise ValueError(f"tensor {name!r} is not a dtype, a shape and data")
    dtype, shape = record.dtype_of(name, entry["dtype"]), record.shape_of(name, entry["shape"])
    real = torch.float32 if dtype == torch.complex64 else dtype
    shape = torch.Size([*shape, 2]) if dtype.is_complex else shape
    flat: list[Any] = []
    _flatten(name, entry["data"], shape, flat)
    to_tensor = _floating if real.is_floating_point else _whole
    tensor = to_tensor(name, flat, real).reshape(shape)
    return torch.view_as_complex(tensor) if dtype.is_complex else tensor


def _flatten(name: str, data: Any, shape: torch.Size, flat: list[Any]) -> None:
    if not shape:
        flat.append(data)
    elif not isinstance(data, list) or len(data) != shape[0]:
        raise ValueError(f"the data of tensor {name!r} do not have its shape")
    else:
        for item in data:
            _flatten(name, item, shape[1:], flat)


def _whole(name: str, flat: list[Any], dtype: torch.dtype) -> Tensor:
    is_bool = dtype == torch.bool
    low, high = (0, 1) if is_bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    kind = bool if is_bool else int
    wrong = [value for value in flat if type(value) is not kind or not low <= value <= high]
    if wrong:
        raise ValueError(f"tensor {name!r} has {wrong[0]!r}, which is not of {dtype}")
    return torch.tensor(flat, dtype=dtype)


def _floating(name: str, flat: list[Any], dtype: torch.dtype) -> Tensor:
    nans = {
        place: value
        for place, value in enumerate(flat)
        if isinstance(value, str) and value.startswith("nan:")
    }
    numbers = [0.0 if place in nans else _number(name, value) for place, value in enumerate(flat)]
    exact = torch.tensor(numbers, dtype=torch.float64)
    tensor = exact.to(dtype)
    changed = (tensor.double() != exact).nonzero().flatten().tolist()
    # an 8-bit float without a zero rounds the 0.0 that stands in for a NaN to its nearest value
    wrong = [numbers[place] for place in changed if place not in nans]
    if wrong:
        raise ValueError(f"tensor {name!r} has {wrong[0]!r}, which is not of {dtype}")
    bits = tensor.view(BITS[dtype.itemsize])
    for place, value in nans.items():
        bits[place] = _bits(name, value, dtype)
    if not tensor.double()[list(nans)].isnan().all():
        raise ValueError(f"tensor {name!r} has the bits of a number after `nan:`")
    return tensor


def _bits(name: str, value: str, dtype: torch.dtype) -> int:
    digits = value.removeprefix("nan:")
    if len(digits) != 2 * dtype.itemsize or not set(digits) <= set("0123456789abcdef"):
        raise ValueError(f"tensor {name!r} has {value!r}, which is not a NaN of {dtype}")
    return int(digits, 16)


def _number(name: str, value: Any) -> float:
    if value in ("inf", "-inf") or type(value) in (int, float):
        return float(value)
    raise ValueError(f"tensor {name!r} has {value!r}, which is not a number")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
