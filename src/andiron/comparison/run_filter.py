"""Conditions over runs, as `lr<1e-2 and (optimizer=adam or not model.hidden=[8])`; never evaluated
as Python.

    condition  = all ("or" all)*        all        = one ("and" one)*
    one        = "not" one | "(" condition ")" | name operator value
    operator   = "=" | "==" | "!=" | "<" | "<=" | ">" | ">="

Names and values with spaces or operators in them stand in quotes.

>>> [word.text for word in _words("lr<=1e-2 and 'valid/my metric' != 3")]
['lr', '<=', '1e-2', 'and', 'valid/my metric', '!=', '3']
"""

import json
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from andiron import errors
from andiron.comparison.recorded_run import Run
from andiron.comparison.run_values import Names, value_of
from andiron.plain_values import as_text, is_number

WORD = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|(==|!=|<=|>=|[=<>()])|([^\s=<>!()'"]+))""")
ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
EQUALS, DIFFERS = ("=", "=="), "!="
MOST_WORDS, MOST_DEPTH = 1000, 50
Condition = Callable[[Run], bool]


@dataclass(frozen=True)
class Word:
    """A piece of a condition; what stands in quotes is never a keyword or an operator."""

    text: str
    is_sign: bool = False
    is_quoted: bool = False

    def is_keyword(self, name: str) -> bool:
        return not self.is_quoted and self.text.lower() == name


def chosen(runs: Sequence[Run], text: str | None) -> list[Run]:
    """The runs for which the condition holds; all without one.

    Raises: SelectionError for a condition that cannot be read, or a name that no run has.
    """
    if not text or not runs:
        return list(runs)
    condition = _Parser(text, Names(runs), runs).parsed()
    return [run for run in runs if condition(run)]


class _Parser:
    """Reads a condition from left to right, each name looked up among those of the runs."""

    def __init__(self, text: str, names: Names, runs: Sequence[Run]):
        self._text, self._names, self._runs = text, names, runs
        self._left = _words(text)[::-1]
        self._depth = 0

    def parsed(self) -> Condition:
        condition = self._any()
        if self._left:
            raise self._unreadable(f"unexpected {self._left[-1].text!r}")
        return condition

    def _any(self) -> Condition:
        found = [self._all()]
        while self._takes("or"):
            found.append(self._all())
        return lambda run: any(condition(run) for condition in found)

    def _all(self) -> Condition:
        found = [self._one()]
        while self._takes("and"):
            found.append(self._one())
        return lambda run: all(condition(run) for condition in found)

    def _one(self) -> Condition:
        is_negated = self._takes("not")
        if not is_negated and not self._takes("("):
            return self._comparison()
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise self._unreadable(f"is nested more than {MOST_DEPTH} deep")
        inner = self._one() if is_negated else self._any()
        self._depth -= 1
        if is_negated:
            return lambda run: not inner(run)
        if not self._takes(")"):
            raise self._unreadable("a ')' is missing")
        return inner

    def _comparison(self) -> Condition:
        name = self._names.resolved(self._next("a name").text)
        sign = self._next("an operator such as = or <", is_sign=True).text
        value = self._next("a value").text
        if sign in ORDERS:
            return self._ordered(name, sign, value)
        if sign not in (*EQUALS, DIFFERS):
            raise self._unreadable(f"{sign!r} where an operator such as = or < should be")
        return lambda run: _is_equal(value_of(run, name), value) == (sign in EQUALS)

    def _ordered(self, name: str, sign: str, text: str) -> Condition:
        """A run whose value has another kind, or that has none, is not chosen."""
        number = _number(text)
        found = (value_of(run, name) for run in self._runs)
        known = [each for each in found if each is not None]
        if number is None and known and all(map(is_number, known)):
            raise self._unreadable(f"{name} is a number, but {text!r} is not")
        order = ORDERS[sign]

        def holds(run: Run) -> bool:
            value = value_of(run, name)
            if number is not None and is_number(value):
                return order(value, number)
            return number is None and isinstance(value, str) and order(value, text)

        return holds

    def _takes(self, keyword: str) -> bool:
        is_next = bool(self._left) and self._left[-1].is_keyword(keyword)
        if is_next:
            self._left.pop()
        return is_next

    def _next(self, expected: str, *, is_sign: bool = False) -> Word:
        if not self._left:
            raise self._unreadable(f"it ends where {expected} should be")
        word = self._left.pop()
        if word.is_sign != is_sign:
            raise self._unreadable(f"{word.text!r} where {expected} should be")
        return word

    def _unreadable(self, why: str) -> errors.SelectionError:
        example = "'lr<1e-2 and optimizer=adam'"
        return errors.SelectionError(f"--where {self._text!r}: {why}; write it as {example}")


def _words(text: str) -> list[Word]:
    found: list[Word] = []
    place = 0
    while text[place:].strip():
        match = WORD.match(text, place)
        if match is None or len(found) == MOST_WORDS:
            why = f"cannot be read at {text[place:][:20]!r}" if match is None else "is too long"
            raise errors.SelectionError(f"--where {text[:200]!r}: {why}")
        double, single, sign, bare = match.groups()
        if sign or bare:
            found.append(Word(sign or bare, is_sign=bool(sign)))
        else:
            found.append(Word(double or single or "", is_quoted=True))
        place = match.end()
    return found


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
