"""A table as named columns, independent of the file format, and the options for reading it.

A reader of another file format makes `Columns` and passes them to `table_splits.of_columns`.

    >>> place = places(["FALSE", "TRUE", "007"])
    >>> place("TRUE"), place("true"), place("7.0"), place("maybe")
    (1, 1, 2, -1)
"""

import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from torch import Tensor

Kind = Literal["number", "date", "text"]
Decimal = Literal[".", ","]
Thousands = Literal[".", ",", " ", "'"]
# of pandas, NaT of its dates, and ? of the UCI repository
MISSING = frozenset({
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "NaT", "None", "n/a", "nan", "null", "?",
})  # fmt: skip
BOOLEANS = ("true", "false")
JOINTS = re.compile(r"[\s|;,+&/()\[\]{}'\"]+")  # of labels in one text
log = logging.getLogger("andiron")
FIRST_DAY = datetime(1970, 1, 1, tzinfo=UTC)
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Layout:
    """How a text file is laid out; None is detected."""

    delimiter: str | None = None
    encoding: str | None = None  # None is UTF-8
    # whether the first line has names, or those of a file without them; None: it has plausible ones
    header: bool | Sequence[str] | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "Layout":
        """The layout in the options of a data set."""
        return cls(*map(options.get, ("delimiter", "encoding", "header")))


@dataclass(frozen=True)
class Reading:
    """Options for reading the values of a file."""

    text: Literal["one_hot", "codes", "refuse"] = "one_hot"
    kinds: Mapping[str, Kind] = field(default_factory=dict)  # of columns; others are inferred
    date_format: str | None = None  # of strptime; None is ISO 8601
    decimal: Decimal = "."
    thousands: Thousands | None = None  # the separator; " " is any space
    missing_values: Sequence[str | float] | None = None  # beside MISSING; empty: none but ""
    classes: Collection[str] = ()  # known names, which are never missing

    def missing_texts(self, *, is_text: bool = False) -> set[str]:
        """The texts that stand for a missing value; in columns of text, only the given ones."""
        given = self.missing_values
        usual = MISSING if not is_text and (given is None or given) else ()
        return {"", *usual, *map(str, given or ())}

    @property
    def missing_numbers(self) -> list[float]:
        """The numbers that stand for a missing value, such as -999."""
        numbers = (parsed(str(value)) for value in self.missing_values or ())
        return [number for number in numbers if number is not None]


PLAIN, DETECTED = Reading(), Layout()


@dataclass(frozen=True, kw_only=True)
class Request:
    """The columns to read of a table, and how."""

    features: Sequence[str] | None  # None: all columns but those in the other fields
    texts: Sequence[str]  # the targets, unconverted
    exclude: Sequence[str] = ()
    kept: Sequence[str] = ()  # further columns, of any values
    layout: Layout = DETECTED
    reading: Reading = PLAIN
    missing: str | float = "refuse"
    max_bad_lines: int | None = None  # None: of rows to predict from, without targets
    has_number_targets: bool = False
    is_partial: bool = False  # invalid rows are left out, in `Columns.refused`


@dataclass(frozen=True)
class Columns:
    """Chosen columns of a table: `numbers` as float64, `texts` unconverted."""

    source: str  # the file, in messages
    names: tuple[str, ...]  # of the columns to predict from; numbers, but for those in `texts`
    numbers: Float[Tensor, "rows columns"]  # NaN where a value is missing
    texts: Mapping[str, Collection[Any]] = field(default_factory=dict)
    reading: Reading = PLAIN  # how the `texts` are written
    kept: Mapping[str, Collection[str]] = field(default_factory=dict)  # beside the predictions
    # of a row counted from 0, in messages: "table.csv, line 12"
    row_name: Callable[[int], str] = "row {}".format
    dates: Collection[str] = ()  # which of the numbers are days since 1970-01-01
    record: Mapping[str, Any] = field(default_factory=dict)  # skipped rows, for data.json
    refused: str = ""  # the problems of rows that are left out of a prediction

    def column(self, name: str) -> Float[Tensor, " rows"]:
        """One column of numbers."""
        return self.numbers[:, [each for each in self.names if each not in self.texts].index(name)]


def is_frame(value: Any) -> bool:
    """Whether a value is a data frame, of polars or of pandas."""
    return hasattr(value, "to_dicts") or hasattr(value, "iterrows")


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


def warn_of_alike(source: str, classes: Iterable[str], what: str = "classes") -> None:
    """Logs classes that differ in case, invisible characters, or the way a number is written."""
    first, pairs = dict[Any, str](), list[str]()
    for name in classes:
        shown = "".join(filter(str.isprintable, unicodedata.normalize("NFKC", name)))
        other = first.setdefault(value_of(" ".join(shown.casefold().split())), name)
        if other != name:
            pairs.append(f"{other!a} and {name!a}")
    if pairs:
        listed = ", ".join(pairs[:3]) + ", ..." * (len(pairs) > 3)
        line = "%s: are two %s each: %s; write those that mean one alike"
        log.warning(line, source, what, listed)


def list_among(classes: Sequence[str]) -> str | None:
    """A class that seems to be a list of labels, which others have too; None if there is none."""
    parts = {name: {*JOINTS.split(name)} - {""} for name in classes}
    counts = Counter(part for own in parts.values() for part in own)
    lists = [name for name in classes if len(parts[name]) > 1]
    shared = [counts[part] > 1 for name in lists for part in parts[name]]
    is_marked = any(shared) and any(re.search("[|;,]", name) for name in lists)
    is_usual = len(lists) > 2 and 4 * sum(shared) > 3 * len(shared)
    made = (name for name in lists if is_marked or is_usual or parts[name] <= {*classes})
    return next(made, None)
