"""Texts that name categories and classes, and the values that they are written for.

    >>> place = places(["FALSE", "TRUE", "007"])
    >>> place("TRUE"), place("true"), place("7.0"), place("maybe")
    (1, 1, 2, -1)
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from typing import Any

import numpy as np

from andiron.plain import readable

# of pandas, NaT of its dates, and ? of the UCI repository
MISSING = frozenset({
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "NaT", "None", "n/a", "nan", "null", "?",
})  # fmt: skip
BOOLEANS = ("true", "false")
SHARED = 1.5  # labels in which a tag stands, on average; words of class names stand in fewer
log = logging.getLogger("andiron")
FIRST_DAY = datetime(1970, 1, 1, tzinfo=UTC)
LARGEST = float(np.finfo(np.float32).max)


def parsed(text: str) -> float | None:
    """The text as a number, NaN and infinity too; None if it is not one in ASCII."""
    try:
        return float(text) if text.isascii() and "_" not in text else None  # 2024_05 is a name
    except ValueError:
        return None


def days(text: str, date_format: str | None) -> float | None:
    """Days since 1970-01-01, with the time of day as a fraction; None if not a date.

    A date without a time zone is taken as UTC.

    >>> days("1970-01-02T12:00", None), days("31.12.1969", "%d.%m.%Y"), days("soon", None)
    (1.5, -1.0, None)
    """
    try:
        if date_format is None:
            moment = datetime.fromisoformat(text)
        else:
            moment = datetime.strptime(text, date_format)
    except ValueError:
        return None
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - FIRST_DAY) / timedelta(days=1)


def distinct(names: Iterable[str]) -> list[str]:
    """The names, the first of each boolean alone: TRUE and true are one category."""
    first = dict[str, str]()
    for name in names:
        first.setdefault(name.lower() if name.lower() in BOOLEANS else name, name)
    return [*first.values()]


def warn_of_alike(source: str, names: Sequence[str]) -> None:
    """Warns of classes, or categories, that differ in their spelling alone."""
    values = [value_of(name.casefold()) for name in names]
    counts = Counter(values)
    if alike := [repr(name) for name, value in zip(names, values) if counts[value] > 1]:
        what = "%s: texts that are written differently, and may be one: %s; write them alike"
        log.warning(what, source, readable.joined(sorted(alike)))


def warn_of_classes(source: str, names: Sequence[str], marks: str = r"\s*[,;|]\s*") -> None:
    """Warns of classes that are written differently, or combine the same words, as tags do.

    `marks` is a regular expression of what is between tags.
    """
    warn_of_alike(source, names)
    tags = Counter(tag for name in names for tag in {*re.split(marks, name)})
    if tags.total() >= SHARED * len(tags):
        log.warning(
            "%s: the labels look like several labels for a sample (multi-label), such as %r; each "
            "of the %d combinations is a class of its own. task=multilabel is for targets of 0 and "
            "1 for each label", source, max(names, key=len), len(names),
        )  # fmt: skip


def places(names: Iterable[str]) -> Callable[[str], int]:
    """A function of a text: the place in `names` of this text, or else of its value; -1 if unknown.

    The same number, boolean or day is written differently in files and data frames. A value that
    several names have is known by its text alone.
    """
    exact = {name: place for place, name in enumerate(names)}
    by_value = dict[Any, int]()
    for name, place in exact.items():
        value = value_of(name)
        by_value[value] = -1 if value in by_value else place
    return lambda text: exact[text] if text in exact else by_value.get(value_of(text), -1)


def value_of(text: str) -> Any:
    """The value that a text is written for: a number, boolean, day or time, or the text itself.

    A float32 has the value of its shortest text, 0.1, also where float64 has more digits of it.
    """
    number = parsed(text)
    if number is not None and number - number == 0:  # finite
        if text.strip().removeprefix("-").isdigit():
            return int(text)  # float64 rounds beyond 2^53
        is_single = abs(number) <= LARGEST and float(np.float32(number)) == number
        return float(str(np.float32(number))) if is_single else number
    if text[2:3] == ":":
        with suppress(ValueError):
            moment, _, fraction = text.partition(".")
            return time.fromisoformat(moment), fraction.rstrip("0")
    day = days(text, None) if text[4:5] == "-" else None
    if day is not None:
        return "day", day
    return text.lower() if text.lower() in BOOLEANS else text
