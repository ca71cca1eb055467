"""The values of one column of a text file: numbers, dates or texts, by what they all look like.

    >>> rooms = ColumnValues("rooms")
    >>> for text in ("3", "many", ""):
    ...     rooms.add(text)
    >>> rooms.kind(Reading()), rooms.missing_rows, rooms.problems("number", Reading())[1]
    ('number', [2], "'many' is not a number; correct it, or leave the column out of data.features")
"""

import array
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from andiron.data.on_disk import columns

Kind = Literal["number", "date", "text"]
MISSING = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "?"})
DECIMAL_COMMA = re.compile(r"[+-]?[\d.]*,\d+")
NAN = float("nan")
FIRST_DAY = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Reading:
    """How the values of a file are read."""

    text: Literal["one_hot", "codes", "refuse"] = "one_hot"
    categories: Sequence[str] = ()  # columns to read as text even if all values are numbers
    date_format: str | None = None  # of strptime; None is ISO 8601
    decimal: Literal[".", ","] = "."
    kinds: Mapping[str, Kind] = field(default_factory=dict)  # of other columns, if they are known


class ColumnValues:
    """The values of one column, row by row."""

    def __init__(self, name: str, decimal: str = "."):
        self.name = name
        self.decimal = decimal
        self.numbers = array.array("d")  # NaN for a value that is not a finite number
        self.texts: dict[int, str] = {}  # by row, of the values that are no finite numbers
        self._pool: dict[str, str] = {}

    def add(self, text: str) -> None:
        """Appends the value of the next row."""
        value = columns.finite(text if self.decimal == "." else text.replace(",", "."))
        if value is None:
            self.texts[len(self.numbers)] = self._pool.setdefault(text, text)
            value = NAN
        self.numbers.append(value)

    @property
    def missing_rows(self) -> list[int]:
        """The rows whose value is one of MISSING."""
        return [row for row, text in self.texts.items() if text in MISSING]

    def kind(self, reading: Reading) -> Kind:
        """A number if any value looks like one; a date if half of them are; else text."""
        if self.name in reading.kinds:
            return reading.kinds[self.name]
        values = {*self.texts.values()} - MISSING
        looks_like_number = len(self.texts) < len(self.numbers) or any(map(_is_almost, values))
        if looks_like_number or not values:
            return "number"
        number_of_dates = sum(days(value, reading.date_format) is not None for value in values)
        if 2 * number_of_dates >= len(values):  # the others are mistakes
            return "date"
        return "number" if reading.text == "refuse" else "text"

    def problems(self, kind: Kind, reading: Reading) -> dict[int, str]:
        """What is wrong with each value that a column of this kind does not allow."""
        if kind == "date":
            return self._no_dates(reading)
        return {
            row: columns.complaint(text) + _remedy(text, reading)
            for row, text in self.texts.items()
            if kind == "number" and text not in MISSING
        }

    def as_numbers(self, kind: Kind, reading: Reading) -> Float[Tensor, " rows"]:
        """The values of a column of numbers, or of dates as days; NaN where one is missing."""
        numbers = torch.frombuffer(self.numbers, dtype=torch.float64).clone()
        if kind == "date":
            by_text = {text: days(text, reading.date_format) for text in self._pool}
            found = {row: by_text[text] for row, text in self.texts.items()}
            numbers.fill_(NAN)
            for row, value in found.items():
                numbers[row] = NAN if value is None else value
        return numbers

    def _no_dates(self, reading: Reading) -> dict[int, str]:
        is_date = {text: days(text, reading.date_format) is not None for text in self._pool}
        wanted = reading.date_format or "YYYY-MM-DD"
        found = {
            row: f"{text!r} is not a date {wanted}; correct it, or remove the row"
            for row, text in self.texts.items()
            if text not in MISSING and not is_date[text]
        }
        for row, value in enumerate(self.numbers):
            if row not in self.texts:
                found[row] = f"'{value:g}' is not a date {wanted}; correct it, or remove the row"
        return found


def days(text: str, date_format: str | None) -> float | None:
    """Days since 1970-01-01, with the time of day as a fraction; None if the text is no date.

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
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - FIRST_DAY) / timedelta(days=1)


def _is_almost(text: str) -> bool:
    """Whether the text is a number but not a finite one, or has a decimal comma."""
    return columns.parsed(text) is not None or DECIMAL_COMMA.fullmatch(text) is not None


def _remedy(text: str, reading: Reading) -> str:
    is_comma = reading.decimal == "." and DECIMAL_COMMA.fullmatch(text)
    return "; if it has a decimal comma, set data.decimal=','" if is_comma else ""
