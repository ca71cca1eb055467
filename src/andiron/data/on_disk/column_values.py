"""The values of one column of a table: numbers, dates or texts, inferred from all of them.

    >>> import polars
    >>> from andiron.data.on_disk.columns import Reading
    >>> rooms = typed("rooms", polars.Series(["3", "many", ""]), Reading())
    >>> rooms.kind, rooms.missing_rows, rooms.faults["many"]
    ('number', [2], "'many' is not a number; correct it, or leave the column out of data.features")
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import polars

from andiron.data.on_disk.columns import Kind, Reading

MISSING = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "?"})
DECIMAL_COMMA = re.compile(r"[+-]?[\d.]*,\d+")
FIRST_DAY = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """The values of one column, row by row."""

    kind: Kind
    values: polars.Series  # as they are written
    numbers: polars.Series  # of a date its days; null for a missing or wrong value; unused of text
    faults: Mapping[str, str] = field(default_factory=dict)  # why a value is wrong, by value

    @property
    def missing_rows(self) -> list[int]:
        """The rows without a value: with one of MISSING, in columns of numbers and dates."""
        return self._rows_of([""] if self.kind == "text" else [*MISSING])

    @property
    def wrong_rows(self) -> Iterator[tuple[int, str]]:
        """The rows with one of `faults`, and why."""
        return ((row, self.faults[self.values[row]]) for row in self._rows_of([*self.faults]))

    def _rows_of(self, values: list[str]) -> list[int]:
        return self.values.is_in(values).arg_true().to_list() if values else []


def typed(name: str, values: polars.Series, reading: Reading) -> ColumnValues:
    """The texts of a column with its kind, of `reading` or inferred."""
    kind = reading.kinds.get(name)
    if kind == "text":
        return untyped(values)
    numbers = finite(values, reading.decimal)
    odd = {*values.filter(numbers.is_null())}
    kind = kind or _kind(odd, numbers.count() > 0, reading)
    if kind == "text":
        return untyped(values)
    if kind == "number":
        remedy = "leave the column out of data.features"
        faults = {text: complaint(text, reading.decimal, remedy) for text in odd - MISSING}
        return ColumnValues(kind, values, numbers, faults)
    known = {text: days(text, reading.date_format) for text in odd}
    wanted = reading.date_format or "YYYY-MM-DD"
    faults = {
        text: f"{text!r} is not a date {wanted}; correct it, or remove the row"
        for text in {*values} - MISSING
        if known.get(text) is None
    }
    of_rows = values.replace_strict(known, default=None, return_dtype=numbers.dtype)
    return ColumnValues(kind, values, of_rows, faults)


def finite(values: polars.Series, decimal: str) -> polars.Series:
    """The texts as finite numbers, with this decimal separator; null for others."""
    if decimal == ",":
        values = values.str.replace_all(",", ".", literal=True)
    numbers = values.cast(polars.Float64, strict=False)
    return numbers.set(~numbers.is_finite().fill_null(False), None)


def parsed(text: str) -> float | None:
    """The text as a number, NaN and infinity too; None if it is not one in ASCII."""
    try:
        return float(text) if text.isascii() else None
    except ValueError:
        return None


def complaint(text: str, decimal: str, remedy: str = "remove the row") -> str:
    """Why the text is not a finite number, and the remedy."""
    if not text:
        return "has no value; fill it in, or remove the row"
    if parsed(text) is None:
        return f"{text!r} is not a number; correct it, or {remedy}{comma_hint(text, decimal)}"
    return f"{text!r} is not a finite number; correct or remove the row"


def comma_hint(text: str, decimal: str) -> str:
    """A hint at the option, if the text may be a number with a decimal comma."""
    is_comma = decimal == "." and DECIMAL_COMMA.fullmatch(text)
    return "; if it has a decimal comma, set data.decimal=','" if is_comma else ""


def untyped(values: polars.Series, numbers_with: str | None = None) -> ColumnValues:
    """The values of a column that is not converted: of `categories`, or a target.

    With a decimal separator `numbers_with`, they should be numbers.
    """
    decimal = numbers_with or ""
    odd = {*values.filter(finite(values, decimal).is_null())} - {""} if decimal else ()
    return ColumnValues("text", values, values, {text: complaint(text, decimal) for text in odd})


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
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - FIRST_DAY) / timedelta(days=1)


def _kind(odd: set[str], has_numbers: bool, reading: Reading) -> Kind:
    """Number if any value looks like one; date if at least half of the others are; else text."""
    values = odd - MISSING
    if has_numbers or not values or any(map(_is_almost, values)):
        return "number"
    number_of_dates = sum(days(value, reading.date_format) is not None for value in values)
    if 2 * number_of_dates >= len(values):  # the others are mistakes
        return "date"
    return "number" if reading.text == "refuse" else "text"


def _is_almost(text: str) -> bool:
    """Whether the text is a number but not a finite one, or has a decimal comma."""
    return parsed(text) is not None or DECIMAL_COMMA.fullmatch(text) is not None
