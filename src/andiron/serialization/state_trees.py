"""The states of parts that are not Andiron's, as JSON and tensors that give equal states back.

>>> tensors: dict[str, Tensor] = {}
>>> plain = encoded({1: Counter("aab"), "mean": torch.ones(2)}, tensors)
>>> decoded(plain, tensors)
{1: Counter({'a': 2, 'b': 1}), 'mean': tensor([1., 1.])}
"""

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from andiron import errors
from andiron.disk import files
from andiron.plain import readable
from andiron.serialization.safetensors_codec import DTYPES

ALLOWED = (
    "numbers, texts, booleans, None, dense tensors and arrays, and lists, tuples, sets, deques and "
    "dicts"
)
PREFIX = "parts/"  # of their tensors, which are beside those of the metrics
MOST_VALUES = files.VALUES_LIMIT // 2  # of all parts together
SEQUENCES: dict[str, Any] = {
    f"${kind.__name__}": kind for kind in (tuple, set, frozenset, torch.Size, deque)
}
MAPPINGS: dict[str, Any] = {
    "$items": dict, **{f"${kind.__name__}": kind for kind in (OrderedDict, Counter, defaultdict)},
}  # fmt: skip
FACTORIES = {str(kind): kind for kind in (None, int, float, str, list, dict, set)}
NAMES = {kind: name for name, kind in (SEQUENCES | MAPPINGS).items()}


def encoded(value: Any, tensors: dict[str, Tensor], place: str = "", prefix: str = "") -> Any:
    """`value` as JSON; its tensors join `tensors`, under the prefix and a number.

    Raises: ConfigError naming the place of a value that no checkpoint can hold.
    """
    def own(value: object, part: object = "") -> Any:
        return encoded(value, tensors, f"{place}{part}", prefix)

    kind, name = type(value), NAMES.get(type(value), "")
    match value:
        case numpy.generic() if value.dtype.kind in "biufU":
            return value.item()
        case None | bool() | int() | float() | str():
            return value
        case numpy.ndarray() if value.dtype.kind in "biufc":
            return {"$array": own(torch.tensor(value))}
        case Tensor() if value.dtype in DTYPES and value.layout is torch.strided and (
            kind in (Tensor, nn.Parameter) or hasattr(value, "full_tensor")  # sharded
        ):
            return _stored(value.detach(), tensors, f"{prefix}{len(tensors)}")
    if kind is list:
        return [own(entry, f"[{number}]") for number, entry in enumerate(value)]
    if kind is dict and all(type(key) is str and key[:1] != "$" for key in value):
        return {key: own(entry, f".{key}") for key, entry in value.items()}
    if name in SEQUENCES:
        return {name: own([*value])} | ({"most": value.maxlen} if kind is deque else {})
    factory = str(value.default_factory) if kind is defaultdict else "None"
    if name and factory in FACTORIES:
        named = {name: own([[*pair] for pair in value.items()])}
        return named | ({"of": factory} if kind is defaultdict else {})
    shown = readable.shortened(" ".join(repr(value).split()))
    why = f"is {shown} of type {kind.__name__}"
    raise errors.ConfigError(f"{place.lstrip('.')}: {why}; a checkpoint holds {ALLOWED}")


def _stored(value: Tensor, tensors: dict[str, Tensor], name: str) -> dict[str, Any]:
    """The entry of a tensor; files have rows, so its dimensions are stored in memory order."""
    order = sorted(range(value.dim()), key=value.stride, reverse=True)
    is_ordered = value.is_contiguous() or not value.permute(order).is_contiguous()
    tensors[name] = value if is_ordered else value.permute(order)
    place = {} if value.is_cpu else {"is_on_device": True}
    return {"$tensor": name} | place | ({} if is_ordered else {"order": order})


def decoded(
    plain: object, tensors: Mapping[str, Tensor], device: torch.device | str = "cpu"
) -> Any:
    """The value before `encoded`; tensors that were not on the CPU are on `device`.

    Raises: LookupError, TypeError, ValueError, AttributeError or RuntimeError for what `encoded`
    cannot have written.
    """
    if isinstance(plain, list):
        return [decoded(value, tensors, device) for value in plain]
    if not isinstance(plain, dict):
        return plain
    match plain:
        case {"$tensor": name}:
            saved = tensors[name].to(device if "is_on_device" in plain else "cpu", copy=True)
            order = plain.get("order", range(saved.dim()))
            return saved.permute([order.index(number) for number in range(saved.dim())])
        case {"$array": tensor}:
            return decoded(tensor, tensors).numpy()
        case {"$deque": items, "most": most}:
            return deque(decoded(items, tensors, device), most)
        case {"$defaultdict": items, "of": factory}:
            return defaultdict(FACTORIES[factory], decoded(items, tensors, device))
    for name in plain.keys() & (SEQUENCES | MAPPINGS).keys():
        items = decoded(plain[name], tensors, device)
        return SEQUENCES[name](items) if name in SEQUENCES else MAPPINGS[name](dict(items))
    return {key: decoded(value, tensors, device) for key, value in plain.items()}


def encoded_parts(states: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Plain values by kind and name of the part, and the tensors in them.

    Raises: ConfigError naming the place of a value that no checkpoint can hold.
    """
    tensors: dict[str, Tensor] = {}
    if not any(states.values()):
        return {kind: {} for kind in states}, tensors
    try:
        plain = encoded(
            {kind: {**own} for kind, own in states.items()}, tensors, prefix=PREFIX
        )
    except RecursionError as error:
        why = "the state of a part is nested too deeply, or in itself"
        raise errors.ConfigError(f"{', '.join(states)}: {why}") from error
    sizes = {
        f"{kind}.{name}": files.num_values(files.as_json(state))
        for kind, own in plain.items()
        for name, state in own.items()
    }
    if sum(sizes.values()) > MOST_VALUES:
        place = max(sizes, key=lambda name: sizes[name])
        why = f"has {sizes[place]:,} values, and a checkpoint holds {MOST_VALUES:,} of all parts"
        raise errors.ConfigError(f"{place}: {why}; put many numbers in a tensor")
    return plain, tensors


def decoded_parts(plain: object, tensors: Mapping[str, Tensor], file: str = "state.json") -> Any:
    """The states; their tensors are on the CPU.

    Raises: DataError for values that `encoded_parts` cannot have written.
    """
    try:
        return decoded(plain, tensors)
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        why = f"the state of a part is damaged ({errors.one_line(error)})"
        raise errors.DataError(f"{file}: {why}; use another checkpoint") from error
