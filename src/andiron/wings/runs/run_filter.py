"""Comparisons that filter runs, such as `lr<1e-2`; never evaluated as Python.

>>> COMPARISON.fullmatch("valid/my metric != 3").groups()
('valid/my metric', '!=', '3')
"""

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from andiron import errors
from andiron.plain.plain_values import as_text, is_number
from andiron.wings.runs.run_reader import RunReader
from andiron.wings.runs.run_values import Names

TEXT = r"\s*([^=<>!]*[^=<>!\s])\s*"
COMPARISON = re.compile(f"{TEXT}(==|!=|<=|>=|[=<>]){TEXT}")
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def chosen(runs: Sequence[RunReader], comparisons: Iterable[str]) -> list[RunReader]:
    """The runs for which all comparisons hold.

    Raises: SelectionError for a comparison that cannot be read, or a name that no run has.
    """
    remaining = list(runs)
    for text in comparisons if runs else ():
        match = COMPARISON.fullmatch(text)
        if match is None:
            raise _comparison_error(text, "is not one comparison")
        name, sign, value = match.groups()
        name = Names(runs).resolved(name)
        run_values = [own for run in runs if (own := run.value(name)) is not None]
        is_text = number_in(value) is None and value != "null"
        if is_text and run_values and all(map(is_number, run_values)):
            raise _comparison_error(text, f"{name} is a number, but {value[:200]!r} is not")
        remaining = [run for run in remaining if _holds(run.value(name), sign, value)]
    return remaining


def _comparison_error(text: str, problem: str) -> errors.SelectionError:
    remedy = f"write a name, {', '.join(SIGNS)}, and a value: --where 'lr<1e-2'"
    return errors.SelectionError(f"--where {text[:200]!r}: {problem}; {remedy}; repeat it for more")


def _holds(value: object, sign: str, text: str) -> bool:
    """Numbers by value; text without regard to case and underscores: `sgd` is the class SGD.

    A value that is missing, or of another kind, is neither smaller nor larger.
    """
    number = number_in(text)
    if is_number(value) and number is not None:
        return SIGNS[sign](value, number)
    if sign in ("=", "==", "!="):
        return SIGNS[sign](_normalized(as_text(value)), _normalized(text))
    return isinstance(value, str) and number is None and SIGNS[sign](value, text)


def _normalized(text: str) -> str:
    return text.casefold().replace("_", "").replace(" ", "")


def number_in(text: str) -> float | None:
    """The number that a text stands for; None if it is not one."""
    try:
        return float(text)
    except ValueError:
        return None
