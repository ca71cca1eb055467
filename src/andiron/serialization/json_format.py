"""Records as readable JSON: tensors are nested lists of their values, exact to the bit.

JSON has neither infinity nor NaN. They are strings here: "inf", "-inf", and "nan:7fc00000" with
the bits of the NaN.
"""

import functools
import json
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy
import torch
from torch import Tensor

from andiron.disk import files
from andiron.serialization import record
from andiron.serialization.record import Stored

BITS = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}
as_text = functools.partial(json.dumps, ensure_ascii=False)


def content(stored: Stored) -> bytes:
    """The content of a JSON file, with one row of numbers a line."""
    lines = [f"  {as_text(key)}: {as_text(value)}" for key, value in stored.head().items()]
    entries = ",\n".join(
        f'    {as_text(name)}: {{"dtype": "{record.dtype_name(tensor.dtype)}", '
        f'"shape": {list(tensor.shape)}, "data": {_data(tensor)}}}'
        for name, tensor in stored.tensors.items()
    )
    lines.append(f'  "tensors": {{\n{entries}\n  }}' if entries else '  "tensors": {}')
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def read(content: bytes, most_values: int) -> Stored:
    """The record in the content of a JSON file.

    Raises: ValueError if it is not a record, or holds more values.
    """
    return record.from_plain(
        files.parsed_json(
            content,
            most_values,
            object_pairs_hook=record.without_repeats,
            parse_constant=_refuse,
        ),
        _tensor,
    )


def _data(tensor: Tensor) -> str:
    """The values as nested lists; a complex number is a list of two numbers."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if not tensor.is_floating_point():
        return _rows(tensor.tolist())
    values, size = tensor.double(), tensor.element_size()
    nans = iter(tensor.view(BITS[size])[values.isnan()].tolist())
    text = _rows(values.tolist()).replace("-Infinity", '"-inf"').replace("Infinity", '"inf"')
    return re.sub("NaN", lambda _: f'"nan:{next(nans):0{2 * size}x}"', text)


def _rows(values: object, indent: str = "      ") -> str:
    match values:
        case [[_, *_], *_]:  # lists that are not empty
            inner = ",\n".join(indent + _rows(value, indent + "  ") for value in values)
            return f"[\n{inner}\n{indent[:-2]}]"
    return json.dumps(values)


def _tensor(data: object, dtype: torch.dtype, shape: torch.Size) -> Tensor:
    if dtype.is_complex:
        return torch.view_as_complex(_tensor(data, dtype.to_real(), torch.Size([*shape, 2])))
    flat = list(_flatten(data, shape))
    to_tensor = _floating if dtype.is_floating_point else _whole
    return to_tensor(flat, dtype).reshape(shape)


def _flatten(data: object, shape: torch.Size) -> Iterator[Any]:
    if not shape:
        yield data
    elif not isinstance(data, list) or len(data) != shape[0]:
        raise ValueError("has data that do not have its shape")
    else:
        for item in data:
            yield from _flatten(item, shape[1:])


def _whole(flat: list[Any], dtype: torch.dtype) -> Tensor:
    kind = bool if dtype == torch.bool else int
    if wrong := [value for value in flat if type(value) is not kind]:
        raise ValueError(f"has {wrong[0]!r}, which is not of {dtype}")
    return torch.from_numpy(numpy.array(flat, str(dtype).removeprefix("torch.")))


def _floating(flat: list[Any], dtype: torch.dtype) -> Tensor:
    exact = torch.tensor([_number(value) for value in flat], dtype=torch.float64)
    tensor, is_nan = exact.to(dtype), exact.isnan()
    wrong = exact[(tensor.double() != exact) & ~is_nan].tolist()
    if wrong:
        raise ValueError(f"has {wrong[0]!r}, which is not of {dtype}")
    nans = [value for value in flat if isinstance(value, str) and value.startswith("nan:")]
    # in NumPy: torch cannot set unsigned integers at several places
    tensor.view(BITS[dtype.itemsize]).numpy()[is_nan.numpy()] = [_bits(nan, dtype) for nan in nans]
    if not tensor.double()[is_nan].isnan().all():
        raise ValueError("has the bits of a number after `nan:`")
    return tensor


def _number(value: Any) -> float:
    if value in ("inf", "-inf") or type(value) in (int, float):
        return float(value)
    if isinstance(value, str) and value.startswith("nan:"):
        return math.nan
    raise ValueError(f"has {value!r}, which is not a number")


def _bits(nan: str, dtype: torch.dtype) -> int:
    digits = re.fullmatch(f"nan:([0-9a-f]{{{2 * dtype.itemsize}}})", nan)
    if digits is None:
        raise ValueError(f"has {nan!r}, which is not a NaN of {dtype}")
    return int(digits[1], 16)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
