"""The values of one column of a table: numbers, dates or texts, inferred from all of them.

    >>> import polars
    >>> from andiron.data.on_disk.columns import Reading
    >>> rooms = typed("rooms", polars.Series(["3", "many", ""]), Reading())
    >>> rooms.kind, [*rooms.rows(missing=True)], [*rooms.rows(missing=False)]
    ('number', [(2, '')], [(1, 'many')])
"""

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import polars

from andiron.data.on_disk import written_numbers
from andiron.data.on_disk.columns import Kind, Reading, days, parsed

DECIMAL_COMMA = re.compile(r"[+-]?[\d.]*,\d+")
OF_TIME = "%Y-%m-%dT%H:%M:%S%.6f"
NOT_A_VALUE = ("NAType", "NaTType")  # of pandas, not imported here


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """The values of one column, row by row."""

    kind: Kind
    values: polars.Series  # texts, or numbers and days; null if missing or wrong
    odd_rows: polars.Series  # without a value, or with a wrong one
    odd: polars.Series  # the texts of these rows
    is_missing: polars.Series  # of these rows

    def rows(self, *, missing: bool) -> Iterator[tuple[int, str]]:
        """The rows without a value, or those with a wrong one, each with its text."""
        chosen = self.is_missing if missing else ~self.is_missing
        return zip(self.odd_rows.filter(chosen), self.odd.filter(chosen), strict=True)

    @property
    def wrong(self) -> polars.Series:
        """The texts of wrong values."""
        return self.odd.filter(~self.is_missing)


def text_of(value: Any) -> str:
    """The text of a value from Python, as `texts` has it; "" if it is missing."""
    value = value.item() if hasattr(value, "item") else value  # of NumPy and torch
    if value is None or type(value).__name__ in NOT_A_VALUE:
        return ""
    if isinstance(value, float | Decimal) and math.isnan(value):
        return ""
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


def texts(values: polars.Series) -> polars.Series:
    """The values of a column as text; "" if missing. Booleans are true and false."""
    if isinstance(values.dtype, polars.Datetime):
        zone = "%:z" if values.dtype.time_zone else ""
        values = values.dt.to_string(OF_TIME + zone)
    elif values.dtype.is_float():
        values = values.fill_nan(None)
    return values.cast(polars.String).fill_null("").str.strip_chars()


def typed(name: str, values: polars.Series, reading: Reading) -> ColumnValues:
    """The values of a column with its kind, of `reading` or inferred."""
    kind = reading.kinds.get(name)
    if kind == "text":
        return untyped(values, reading)
    numbers = written_numbers.finite(values, reading)
    column = _column("number", values, numbers, reading)
    is_date = isinstance(values.dtype, polars.Date | polars.Datetime)
    if kind is None:
        kind = "date" if is_date else _kind(column.wrong.unique(), numbers.count() > 0, reading)
    if kind == "number":
        return column
    if kind == "text":
        return untyped(values, reading)
    written = texts(values)
    known = {text: days(text, reading.date_format) for text in written.unique()}
    if reading.date_format is not None:  # as a data frame has them
        known |= {text: days(text, None) for text in known if text[4:5] == "-" == text[7:8]}
    dates = written.replace_strict(known, default=None, return_dtype=polars.Float64)
    return _column("date", values, dates, reading)


def untyped(values: polars.Series, reading: Reading) -> ColumnValues:
    """The texts of a column of categories."""
    written, missing = texts(values), reading.missing(is_text=True)
    is_missing = written.is_in([*missing])
    column = _column("text", values, written.set(is_missing, None), reading, missing)
    return replace(column, values=column.values.fill_null(""))


def target(values: polars.Series, reading: Reading, *, is_number: bool) -> ColumnValues:
    """The values of a target, as they are written; if `is_number`, others are wrong."""
    if is_number:
        return _column("number", values, written_numbers.finite(values, reading), reading)
    written, missing = texts(values), reading.missing() - {*reading.classes}
    is_missing = written.is_in([*missing]) | _are_missing_numbers(written, reading)
    return _column("text", values, written.set(is_missing, None), reading, missing)


def complaint(text: str, remedy: str, hint: str = "") -> str:
    """Why the text is not a finite number, and the remedy."""
    if not text:
        return "has no value; fill it in, or remove the row"
    if parsed(text) is None or hint:
        return f"{text!r} is not a number; correct it, or {remedy}{hint}"
    return f"{text!r} is not a finite number; correct or remove the row"


def _column(
    kind: Kind,
    values: polars.Series,
    known: polars.Series,
    reading: Reading,
    missing: Collection[str] | None = None,
) -> ColumnValues:
    """The column with the values `known`; null where they are missing or wrong."""
    odd_rows = known.is_null().arg_true()
    odd = texts(values.gather(odd_rows))
    is_missing = odd.is_in([*(missing or reading.missing())]) | _are_missing_numbers(odd, reading)
    return ColumnValues(kind, known, odd_rows, odd, is_missing)


def _are_missing_numbers(written: polars.Series, reading: Reading) -> polars.Series:
    numbers = written_numbers.plain(written, reading).cast(polars.Float64, strict=False)
    return numbers.is_in(reading.missing_numbers).fill_null(False)


def _kind(values: polars.Series, has_numbers: bool, reading: Reading) -> Kind:
    """Number if any value looks like one; date if at least half of the others are; else text."""
    if has_numbers or not len(values) or any(map(_is_almost, values)):
        return "number"
    number_of_dates = sum(days(value, reading.date_format) is not None for value in values)
    if 2 * number_of_dates >= len(values):  # the others are mistakes
        return "date"
    looked_at = values.head(written_numbers.MOST_LOOKED_AT)
    is_number = 2 * len(written_numbers.most_read(looked_at, reading).texts) >= len(looked_at)
    return "number" if is_number or reading.text == "refuse" else "text"


def _is_almost(text: str) -> bool:
    """Whether the text is a number but not a finite one, or has a decimal comma."""
    return parsed(text) is not None or DECIMAL_COMMA.fullmatch(text) is not None
