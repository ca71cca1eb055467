"""Records as readable JSON: tensors are nested lists of their values, exact to the bit.

JSON has neither infinity nor NaN. They are strings here: "inf", "-inf" and "nan", without the bits
of the NaN.
"""

import functools
import json
from collections.abc import Iterator
from typing import Any

import numpy
import torch
from torch import Tensor

from andiron.disk import files
from andiron.serialization.record import dtype_name
from andiron_lab.records import stored_record
from andiron_lab.records.stored_record import Stored

NOT_FINITE = {"-Infinity": '"-inf"', "Infinity": '"inf"', "NaN": '"nan"'}  # as Python writes them
as_text = functools.partial(json.dumps, ensure_ascii=False)


def content(stored: Stored) -> bytes:
    """The content of a JSON file, with one row of numbers a line."""
    lines = [f"  {as_text(key)}: {as_text(value)}" for key, value in stored.head().items()]
    entries = ",\n".join(
        f'    {as_text(name)}: {{"dtype": "{dtype_name(tensor.dtype)}", '
        f'"shape": {list(tensor.shape)}, "data": {_data(tensor)}}}'
        for name, tensor in stored.tensors.items()
    )
    lines.append(f'  "tensors": {{\n{entries}\n  }}' if entries else '  "tensors": {}')
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def read(content: bytes, most_values: int) -> Stored:
    """The record in the content of a JSON file.

    Raises: ValueError if it is not a record, or holds more values.
    """
    return stored_record.from_plain(
        files.parsed_json(
            content,
            most_values,
            object_pairs_hook=stored_record.without_repeats,
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
    text = _rows(tensor.double().tolist())
    for constant, string in NOT_FINITE.items():
        text = text.replace(constant, string)
    return text


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
    tensor = exact.to(dtype)
    wrong = exact[(tensor.double() != exact) & ~exact.isnan()].tolist()
    if wrong:
        raise ValueError(f"has {wrong[0]!r}, which is not of {dtype}")
    return tensor


def _number(value: Any) -> float:
    if type(value) in (int, float) or value in ("inf", "-inf", "nan"):
        return float(value)
    if isinstance(value, str) and value.startswith("nan:"):  # with its bits, by earlier versions
        return float("nan")
    raise ValueError(f"has {value!r}, which is not a number")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
