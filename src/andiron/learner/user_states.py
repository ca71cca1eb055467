"""The states of parts that users may write, as JSON and tensors that give equal states back.

>>> plain, tensors = encoded({"observers": {"mine": {1: (0.5, None), "mean": torch.ones(2)}}})
>>> decoded(plain, tensors)["observers"]["mine"]
{1: (0.5, None), 'mean': tensor([1., 1.])}
"""

from collections.abc import Mapping
from typing import Any

import numpy
import torch
from torch import Tensor

from andiron import errors
from andiron.disk import files
from andiron.plain import readable
from andiron.serialization.safetensors_codec import DTYPES

PREFIX = "parts/"  # of their tensors, which are beside those of the metrics
MOST_VALUES = files.VALUES_LIMIT // 2  # of all parts together
ALLOWED = "numbers, texts, booleans, None, dense tensors and arrays, and lists, tuples and dicts"


def encoded(states: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Plain values by kind and name of the part, and the tensors in them.

    Raises: ConfigError naming the place of a value that no checkpoint can hold.
    """
    tensors: dict[str, Tensor] = {}
    try:
        plain = _encoded({kind: {**own} for kind, own in states.items()}, tensors, "")
    except RecursionError as error:
        why = "the state of a part is nested too deeply, or in itself"
        raise errors.ConfigError([f"{', '.join(states)}: {why}"]) from error
    sizes = {
        f"{kind}.{name}": files.num_values(files.as_json(state))
        for kind, own in plain.items()
        for name, state in own.items()
    }
    if sum(sizes.values()) > MOST_VALUES:
        place = max(sizes, key=lambda name: sizes[name])
        why = f"has {sizes[place]:,} values, and a checkpoint holds {MOST_VALUES:,} of all parts"
        raise errors.ConfigError([f"{place}: {why}; put many numbers in a tensor"])
    return plain, tensors


def decoded(plain: Any, tensors: Mapping[str, Tensor], file: str = "state.json") -> Any:
    """The states; their tensors are on the CPU.

    Raises: DataError for values that `encoded` cannot have written.
    """
    try:
        return _decoded(plain, tensors)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        why = f"the state of a part is damaged ({errors.one_line(error)})"
        raise errors.DataError(f"{file}: {why}; use another checkpoint") from error


def _encoded(value: Any, tensors: dict[str, Tensor], place: str) -> Any:
    match value:
        case numpy.generic() if value.dtype.kind in "biufU":
            return value.item()
        case None | bool() | int() | float() | str():
            return value
        case list():
            return [_encoded(each, tensors, f"{place}[{n}]") for n, each in enumerate(value)]
        case tuple():
            return {"$tuple": _encoded([*value], tensors, place)}
        case dict() if all(isinstance(key, str) and key[:1] != "$" for key in value):
            return {key: _encoded(each, tensors, f"{place}.{key}") for key, each in value.items()}
        case dict():
            return {"$items": _encoded([[*pair] for pair in value.items()], tensors, place)}
        case numpy.ndarray() if value.dtype.kind in "biufc":
            return {"$array": _encoded(torch.tensor(value), tensors, place)}
        case Tensor() if value.dtype in DTYPES and value.layout is torch.strided:
            name = f"{PREFIX}{len(tensors)}"
            tensors[name] = value.detach()
            return {"$tensor": name}
    shown = readable.shortened(" ".join(repr(value).split()))
    why = f"is {shown} of type {type(value).__name__}"
    raise errors.ConfigError([f"{place[1:]}: {why}; a checkpoint holds {ALLOWED}"])


def _decoded(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    match value:
        case list():
            return [_decoded(each, tensors) for each in value]
        case {"$tuple": items}:
            return tuple(_decoded(items, tensors))
        case {"$items": pairs}:
            return dict(_decoded(pairs, tensors))
        case {"$array": tensor}:
            return _decoded(tensor, tensors).numpy()
        case {"$tensor": name}:
            return tensors[name].clone()
        case dict():
            return {key: _decoded(each, tensors) for key, each in value.items()}
    return value
