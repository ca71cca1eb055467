"""The values of one column of a table: numbers, dates or texts, inferred from all of them.

    >>> import polars
    >>> from andiron.data.on_disk.columns import Reading
    >>> rooms = typed(polars.Series(["3", "many", ""]), None, Reading())
    >>> rooms.kind, rooms.missing.rows(), rooms.wrong.rows()
    ('number', [(2, '')], [(1, 'many')])
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars

from andiron.data.on_disk import written_numbers
from andiron.data.on_disk.columns import Kind, Reading, days, parsed

DECIMAL_COMMA = re.compile(r"[+-]?[\d.]*,\d+")
DATE = re.compile(r"\d{1,4}([./-])\d{1,2}\1(\d{2}|\d{4})\b")


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """The values of one column, row by row."""

    kind: Kind
    values: polars.Series  # texts, "" if missing; or numbers and days, null if missing or wrong
    missing: polars.DataFrame  # the row and the text of each missing value
    wrong: polars.DataFrame  # the row and the text of each wrong value


def text_of(value: Any) -> str:
    """The text of a value from Python, as `texts` has it; "" if it is missing."""
    value = value.item() if hasattr(value, "item") else value  # of NumPy and torch
    # NAType is of pandas, not imported here; NaN and NaT do not equal themselves
    if value is None or type(value).__name__ == "NAType" or value != value:
        return ""
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


def texts(values: polars.Series) -> polars.Series:
    """The values of a column as text; "" if missing. Booleans are true and false."""
    if isinstance(values.dtype, polars.Datetime):
        return polars.Series([*map(text_of, values)], dtype=polars.String)
    if values.dtype.is_float():
        values = values.fill_nan(None)
    return values.cast(polars.String).fill_null("").str.strip_chars()


def typed(values: polars.Series, kind: Kind | None, reading: Reading) -> ColumnValues:
    """The values of a column of this kind, by default inferred."""
    if kind == "text":
        return untyped(values, reading, reading.missing_texts(is_text=True))
    numbers = written_numbers.finite(values, reading)
    column = _column("number", values, numbers, reading)
    if kind is None:
        is_date = isinstance(values.dtype, polars.Date | polars.Datetime)
        wrong = column.wrong["text"].unique()
        kind = "date" if is_date else _kind(wrong, numbers.count() > 0, reading)
        return column if kind == "number" else typed(values, kind, reading)
    if kind == "number":
        return column
    written = texts(values)
    known = {text: days(text, reading.date_format) for text in written.unique()}
    if reading.date_format is not None:  # as a data frame has them
        known |= {text: days(text, None) for text in known if text[4:5] == "-" == text[7:8]}
    dates = written.replace_strict(known, default=None, return_dtype=polars.Float64)
    return _column("date", values, dates, reading)


def untyped(values: polars.Series, reading: Reading, missing: Collection[str]) -> ColumnValues:
    """The texts of a column of categories or classes; `missing` are no values."""
    written = texts(values)
    is_missing = _are_missing(written, reading, missing)
    gaps = polars.DataFrame({"row": is_missing.arg_true(), "text": written.filter(is_missing)})
    values = written.set(is_missing, "") if len(gaps) else written  # without a copy
    return ColumnValues("text", values, gaps, gaps.clear())


def complaint(text: str, remedy: str, hint: str = "") -> str:
    """Why the text is not a finite number, and the remedy."""
    if not text:
        return "has no value; fill it in, or remove the row"
    if parsed(text) is None or hint:
        looks = "looks like a date, and " if DATE.match(text) else ""
        return f"{text!r} {looks}is not a number; correct it, or {remedy}{hint}"
    return f"{text!r} is not a finite number; correct or remove the row"


def _column(
    kind: Kind, values: polars.Series, known: polars.Series, reading: Reading
) -> ColumnValues:
    """The column with the values `known`; null where they are missing or wrong."""
    rows = known.is_null().arg_true()
    odd = polars.DataFrame({"row": rows, "text": texts(values.gather(rows))})
    is_missing = _are_missing(odd["text"], reading, reading.missing_texts())
    return ColumnValues(kind, known, odd.filter(is_missing), odd.filter(~is_missing))


def _are_missing(
    written: polars.Series, reading: Reading, missing: Collection[str]
) -> polars.Series:
    numbers = written_numbers.plain(written, reading).cast(polars.Float64, strict=False)
    return written.is_in([*missing]) | numbers.is_in(reading.missing_numbers).fill_null(False)


def _kind(values: polars.Series, has_numbers: bool, reading: Reading) -> Kind:
    """Number if any value looks like one; date if at least half of the others are; else text."""
    if has_numbers or not len(values):
        return "number"
    # a number that is not finite, or has a decimal comma
    if any(parsed(text) is not None or DECIMAL_COMMA.fullmatch(text) for text in values):
        return "number"
    number_of_dates = sum(days(value, reading.date_format) is not None for value in values)
    if 2 * number_of_dates >= len(values):  # the others are mistakes
        return "date"
    looked_at = values.head(written_numbers.MOST_LOOKED_AT)
    is_number = 2 * len(written_numbers.most_read(looked_at, reading).texts) >= len(looked_at)
    return "number" if is_number or reading.text == "refuse" else "text"
