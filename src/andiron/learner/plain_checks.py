"""Whether the plain values of a saved state are values that a run can have: types and ranges.

Whoever gives a run folder away can sign its manifests again, so a whole checkpoint is data too.

>>> check({"updates": COUNT, "best": optional(NUMBER)}, {"updates": 3, "best": None}, "state.json")
>>> check({"window": [COUNT, COUNT]}, {"window": [3, -1]}, "state.json")
Traceback (most recent call last):
    ...
andiron.errors.DataError: state.json: window[1] is -1, not a whole number from 0
"""

import math
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from andiron import errors
from andiron.plain_values import is_finite, is_number

MOST = 2**53  # of what is counted one by one: any more would be no float's whole number
SHOWN = 60  # characters of a wrong value
WORDS = 624  # of the Mersenne twister's state, and its position among them


@dataclass(frozen=True)
class Kind:
    """A description of the allowed values, and whether a value is one."""

    allowed: str
    holds: Callable[[Any], bool]


@dataclass(frozen=True)
class Each:
    """A list, or a mapping by text, of any number of values of one kind."""

    of: "Spec"
    type: type  # list or dict


# a kind; a mapping with these keys, where `?` marks one that may be missing; a list of these
Spec = Kind | Each | Mapping[str, Any] | list[Any]


def optional(kind: Kind) -> Kind:
    """The kind, or None."""
    return Kind(f"{kind.allowed}, or null", lambda value: value is None or kind.holds(value))


def _whole(first: int, end: int, allowed: str) -> Kind:
    return Kind(allowed, lambda value: type(value) is int and first <= value < end)


def _words(number: int) -> Kind:
    """32-bit words in hexadecimal digits, the position of a generator behind the state."""

    def holds(value: Any) -> bool:
        if not isinstance(value, str) or len(value) != 8 * number:
            return False
        is_hex = set(value) <= set(string.hexdigits)
        position = bytes.fromhex(value)[4 * WORDS :] if is_hex else b""
        return is_hex and int.from_bytes(position, "little") <= WORDS

    return Kind(f"{number} words in hexadecimal digits", holds)


COUNT = _whole(0, MOST, "a whole number from 0")
LAST_UPDATE = _whole(-1, MOST, "a whole number from -1")
SEED = _whole(-(2**63), 2**64, "a whole number of 64 bits")
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
TEXT = Kind("text", lambda value: isinstance(value, str))
NUMBER = Kind("a finite number", is_finite)
MEASURED = Kind("a number", is_number)  # of a run that does not mind a NaN
SECONDS = Kind("a finite number from 0", lambda value: is_finite(value) and value >= 0)
SCALE = Kind("a power of two", lambda value: is_finite(value) and math.frexp(value)[0] == 0.5)
_NOT_FINITE = ("nan", "inf", "-inf")
LAST = Kind("a number, text or null", lambda v: v is None or is_number(v) or v in _NOT_FINITE)
PLAIN = Kind("a list or an object", lambda value: isinstance(value, list | dict))
RANDOM = {
    "python": [_whole(3, 4, "3"), _words(WORDS + 1), optional(NUMBER)],
    "numpy": [
        _words(WORDS),
        _whole(0, WORDS + 1, f"a whole number from 0 to {WORDS}"),
        _whole(0, 2, "0 or 1"),
        NUMBER,
    ],
}


def check(spec: Spec, value: Any, file: str, where: str = "") -> None:
    """Refuses a value that is not as `spec` says.

    Raises: DataError naming the file, the place in it, the value and what is allowed.
    """
    match spec:
        case Kind():
            if not spec.holds(value):
                raise wrong(file, where, value, spec.allowed)
        case Each():
            if not isinstance(value, spec.type) or not _has_names(value):
                allowed = "a list" if spec.type is list else "an object"
                raise wrong(file, where, value, allowed)
            items: Any = value
            for key, each in items.items() if spec.type is dict else enumerate(items):
                check(spec.of, each, file, _inside(where, key))
        case list():
            if not isinstance(value, list) or len(value) != len(spec):
                raise wrong(file, where, value, f"a list of {len(spec)}")
            for place, (inner, each) in enumerate(zip(spec, value, strict=True)):
                check(inner, each, file, _inside(where, place))
        case _:
            _check_mapping(spec, value, file, where)


def wrong(file: str, where: str, value: Any, allowed: str) -> errors.DataError:
    """The error of a value that is not allowed at a place."""
    shown = repr(value)
    shown = shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."
    return errors.DataError(f"{file}: {where or 'it'} is {shown}, not {allowed}")


def _check_mapping(spec: Mapping[str, Any], value: Any, file: str, where: str) -> None:
    if not isinstance(value, dict) or not _has_names(value):
        raise wrong(file, where, value, "an object")
    known = {key.removeprefix("?"): inner for key, inner in spec.items()}
    missing = sorted(spec.keys() - {f"?{key}" for key in known} - value.keys())
    unknown = sorted(value.keys() - known.keys())
    if missing or unknown:
        problem = f"{missing[0]!r} is missing" if missing else f"{unknown[0]!r} is not known"
        raise errors.DataError(f"{file}: {f'{where}: ' if where else ''}{problem[:SHOWN]}")
    for key, each in value.items():
        check(known[key], each, file, _inside(where, key))


def _has_names(value: Any) -> bool:
    return not isinstance(value, dict) or all(isinstance(key, str) for key in value)


def _inside(where: str, key: str | int) -> str:
    if isinstance(key, int):
        return f"{where}[{key}]"
    return f"{where}.{key}" if where else key


def is_alike(found: Any, own: Any) -> bool:
    """Whether a saved value has the keys and types of an object's own, with finite numbers."""
    if isinstance(own, dict):
        same_keys = isinstance(found, dict) and found.keys() == own.keys()
        return same_keys and all(is_alike(found[key], own[key]) for key in own)
    if isinstance(own, list | tuple):
        return isinstance(found, list | tuple)
    if own is None or found is None:
        return found is None or isinstance(found, str | list | dict) or is_finite(found)
    if isinstance(own, bool) or not isinstance(own, int | float):
        return isinstance(found, type(own))
    is_count = type(own) is int and own >= 0
    return is_finite(found) and (not is_count or (type(found) is int and 0 <= found < MOST))
