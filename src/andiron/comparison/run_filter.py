"""Conditions over runs, as `lr<1e-2 and optimizer=adam`: all must hold; never evaluated as Python.

Names and values with spaces or operators in them stand in quotes.

>>> [match.groups() for match in _comparisons("lr<=1e-2 and 'valid/my metric' != 3")]
[('lr', '<=', '1e-2'), ("'valid/my metric'", '!=', '3')]
"""

import json
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from andiron import errors
from andiron.comparison.recorded_run import Run
from andiron.comparison.run_values import Names, value_of
from andiron.plain.plain_values import as_text, is_number

TEXT = r"""("[^"]*"|'[^']*'|[^\s=<>!'"]+)"""
COMPARISON = re.compile(rf"\s*{TEXT}\s*(==|!=|<=|>=|[=<>])\s*{TEXT}\s*(?:and\s+(?=\S)|$)", re.I)
ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def chosen(runs: Sequence[Run], text: str | None) -> list[Run]:
    """The runs for which the condition holds; all without one.

    Raises: SelectionError for a condition that cannot be read, or a name that no run has.
    """
    if not text or not runs:
        return list(runs)
    left, names = list(runs), Names(runs)
    for match in _comparisons(text):
        name, sign, value = (part.strip("'\"") for part in match.groups())
        name = names.resolved(name)
        if sign not in ORDERS:
            is_wanted = sign != "!="
            left = [run for run in left if _is_equal(value_of(run, name), value) == is_wanted]
            continue
        values = [known for run in runs if (known := value_of(run, name)) is not None]
        if _number(value) is None and values and all(map(is_number, values)):
            raise _unreadable(text, f"{name} is a number, but {value!r} is not")
        left = [run for run in left if _is_ordered(value_of(run, name), ORDERS[sign], value)]
    return left


def _comparisons(text: str) -> Iterator[re.Match[str]]:
    place = 0
    while text[place:].strip():
        match = COMPARISON.match(text, place)
        if match is None:
            raise _unreadable(text, f"cannot be read at {text[place:][:20]!r}")
        yield match
        place = match.end()


def _unreadable(text: str, why: str) -> errors.SelectionError:
    example = "'lr<1e-2 and optimizer=adam'"
    return errors.SelectionError(f"--where {text[:200]!r}: {why}; write it as {example}")


def _is_ordered(value: Any, order: Callable[[Any, Any], bool], text: str) -> bool:
    """A run whose value is missing, or of another kind, is not chosen."""
    number = _number(text)
    if number is not None and is_number(value):
        return order(value, number)
    return number is None and isinstance(value, str) and order(value, text)


def _is_equal(value: Any, text: str) -> bool:
    """Numbers by value; text without regard to case and underscores: `sgd` is the class SGD."""
    if value is None:
        return text.lower() in ("null", "none")
    if is_number(value):
        return value == _number(text)
    if isinstance(value, list):
        return _unspaced(json.dumps(value)) == _unspaced(text)
    return _simple(as_text(value)) == _simple(text)


def _unspaced(text: str) -> str:
    return text.replace(" ", "").replace("'", '"')


def _simple(text: str) -> str:
    return text.casefold().replace("_", "")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
