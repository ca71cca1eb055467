"""A record as it is in a file, and the values that every format holds exactly."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from andiron.serialization.record import VERSION, VERSION_KEY, checked_head, dtype_name
from andiron.serialization.safetensors_codec import DTYPES

# decodes a tensor's data; the message of its ValueError follows the tensor's name
Decoded = Callable[[Any, torch.dtype, torch.Size], Tensor]
NAMED_DTYPES = {dtype_name(dtype): dtype for dtype in DTYPES}


@dataclass(frozen=True)
class Stored:
    """A record as it is in a file; `dtypes` names the original dtype of each converted tensor."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]
    dtypes: dict[str, str]

    def head(self) -> dict[str, Any]:
        """The content of the file besides its tensors."""
        return {VERSION_KEY: VERSION, "dtypes": self.dtypes, "values": self.values}


def from_plain(whole: object, decoded: Decoded) -> Stored:
    """The record in a mapping of its head and of each tensor's dtype, shape and data.

    Raises: ValueError if it is not a record.
    """
    if not isinstance(whole, dict) or not isinstance(whole.get("tensors"), dict):
        raise ValueError("it is not a mapping with tensors")
    tensors = {name: _tensor(name, entry, decoded) for name, entry in whole["tensors"].items()}
    return stored(tensors, whole)


def stored(tensors: dict[str, Tensor], head: Mapping[str, object]) -> Stored:
    """The record in a file.

    Raises: ValueError if `head` has another version, or not the form of `Stored.head`.
    """
    dtypes, values = checked_head(head)
    check_plain(values)
    return Stored(tensors, values, dtypes)


def check_plain(value: object, where: str = "values") -> None:
    """Raises: ValueError naming the first value that some format cannot hold exactly."""
    if type(value) is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise ValueError(f"{where} has the key {key!r}; keys are strings: {str(key)!r}")
            _check_text(key, where)
            check_plain(item, f"{where}[{key!r}]")
    elif type(value) is list:
        for place, item in enumerate(value):
            check_plain(item, f"{where}[{place}]")
    elif type(value) is str:
        _check_text(value, where)
    elif type(value) is int and not -(2**63) <= value < 2**64:
        raise ValueError(f"{where} is {value}, which needs more than 64 bits; write it as a string")
    elif type(value) is float and not isfinite(value):
        raise ValueError(
            f"{where} is {value}, which JSON does not have; "
            "write it as a string or None, or keep it in a tensor"
        )
    elif value is not None and type(value) not in (bool, int, float):
        raise ValueError(
            f"{where} is a {type(value).__name__}; values are dict, list, str, int, float, bool "
            "or None: convert it, or keep it in a tensor"
        )


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A mapping of the pairs in a file. Raises: ValueError if a name occurs twice."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a name occurs twice")
    return mapping


def _check_text(text: str, where: str) -> None:
    """Raises: ValueError if `text` has half a surrogate pair, which has no encoding."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{where} has {text!r}, half a surrogate pair, which no file can hold; rename it"
        ) from error


def _tensor(name: str, entry: object, decoded: Decoded) -> Tensor:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data"}:
        raise ValueError(f"tensor {name!r} is not a dtype, a shape and data")
    dtype, shape = entry["dtype"], entry["shape"]
    if not isinstance(dtype, str) or dtype not in NAMED_DTYPES:
        raise ValueError(f"the dtype of tensor {name!r} is {dtype!r}, which records do not have")
    if not isinstance(shape, list) or any(
        type(size) is not int or not 0 <= size < 2**63 for size in shape
    ):
        raise ValueError(f"the shape of tensor {name!r} is malformed: {shape!r}")
    try:
        return decoded(entry["data"], NAMED_DTYPES[dtype], torch.Size(shape))
    except ValueError as error:
        raise ValueError(f"tensor {name!r} {error}") from error
