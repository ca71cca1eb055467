"""The values of one column of a table: numbers, dates or texts, inferred from all of them.

    >>> import polars
    >>> from andiron.data.on_disk.columns import Reading
    >>> rooms = typed(polars.Series(["3", "many", ""]), None, Reading())
    >>> rooms.kind, rooms.missing.rows(), rooms.wrong.rows()
    ('number', [(2, '')], [(1, 'many')])
    >>> prices = polars.Series(["1.234,50", "850", "2.400"])
    >>> finite(prices, Reading(decimal=",", thousands=".")).to_list()
    [1234.5, 850.0, 2400.0]
    >>> date_formats({"Jan 1 2000", "May 13 2000"})
    ['%b %d %Y']
"""

import itertools
import json
import math
import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars

from andiron.data.on_disk.columns import MISSING, Kind, Reading, days, parsed

DECIMAL_COMMA = re.compile(r"[+-]?[\d.]*,\d+")
SEPARATED = re.compile(r"[+-]?\d[\d.,'\s\u2019]*", re.ASCII)
CURRENCY = r"(?:%|‰|\p{Sc}|EUR|USD|GBP|CHF)?"
# such as 45 %, $9.50 or 1.234,5
LIKE_NUMBER = rf"^[+-]?\s*{CURRENCY}\s*\d+([.,'\s]\d{{3}})*[.,]?\d*\s*{CURRENCY}$"
LIKE_DATE = re.compile(
    r"\b\d{1,4}[./ -]\d{1,2}[./ -]\d{2,4}\b"
    r"|(?i:\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))"
)
MOST_LOOKED_AT = 1000  # texts of a column, to guess its format
SEPARATORS = {".": r"\.", ",": ",", " ": r"\s", "'": "['\u2019]"}  # as patterns
DATES = [
    week + day.replace(" ", mark) + time
    for week, day, mark, time in itertools.product(
        ("", "%a ", "%a, ", "%A, "),
        ("%d %m %Y", "%m %d %Y", "%Y %m %d", "%d %m %y", "%m %d %y", "%d %b %Y", "%d %B %Y",
         "%b %d %Y", "%b %d, %Y", "%B %d %Y", "%B %d, %Y", "%Y %b %d", "%d %b %y", "%b %Y", "%B %Y",
         "%b %y"),
        "./- ",
        ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", ":%H:%M:%S", " %H:%M:%S %z",
         ":%H:%M:%S %z"),
    )
]  # fmt: skip
EPOCH = 719_162  # days from 0001-01-01, the first of Python, to 1970-01-01
LAST_DAY = 2_932_896.0  # 9999-12-31
A_DAY = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """The values of one column, row by row."""

    kind: Kind
    values: Any  # texts, "" if missing; or numbers and days, null or NaN if missing or wrong
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
    """The values of a column as text; "" if missing. Booleans are true and false.

    Moments have the text of NumPy where Python has no such year.
    """
    if isinstance(values.dtype, polars.Date | polars.Datetime):
        is_far = _days(values).is_null() & values.is_not_null()
        written = polars.Series([*map(text_of, values.set(is_far, None))], dtype=polars.String)
        return written.scatter(is_far.arg_true(), [*map(str, values.filter(is_far).to_numpy())])
    if values.dtype == polars.Time:  # a cast drops fractions of a second
        values = values.dt.to_string("%H:%M:%S%.f")
    if values.dtype.is_float():
        values = values.fill_nan(None)
    return values.cast(polars.String).fill_null("").str.strip_chars()


def _days(values: polars.Series) -> polars.Series:
    """Dates or moments as days since 1970-01-01; null outside of the years 1 to 9999."""
    numbers = values.to_physical().cast(polars.Float64)
    if isinstance(values.dtype, polars.Datetime):
        numbers = numbers / A_DAY[values.dtype.time_unit]
    return numbers.set(~numbers.is_between(-EPOCH, LAST_DAY + 1, closed="left"), None)


def typed(values: polars.Series, kind: Kind | None, reading: Reading) -> ColumnValues:
    """The values of a column of this kind, by default inferred."""
    is_date = isinstance(values.dtype, polars.Date | polars.Datetime)
    if kind is None and (
        is_date  # numbers too, such as 20240531
        or reading.date_format and are_dates({*texts(values)} - MISSING, reading.date_format)
    ):
        kind = "date"
    if kind in (None, "number"):
        numbers = finite(values, reading)
        column = _with_odd("number", numbers, values, reading)
        if kind is None and not numbers.count():
            kind = _kind(column.wrong["text"].unique(), reading)
        if kind in (None, "number"):
            return column
    if kind == "text":
        return untyped(values, reading, reading.missing_texts(is_text=True))
    if is_date:
        dates = _days(values)
    else:
        written = texts(values)
        known = {text: days(text, reading.date_format) for text in written.unique()}
        if reading.date_format is not None:  # as a data frame has them
            known |= {text: days(text, None) for text, day in known.items()
                      if day is None and text[4:5] == "-" == text[7:8]}  # fmt: skip
        dates = written.replace_strict(known, default=None, return_dtype=polars.Float64)
    return _with_odd("date", dates, values, reading)


def untyped(values: polars.Series, reading: Reading, missing: Collection[str]) -> ColumnValues:
    """The texts of a column of categories or classes; `missing` are no values."""
    written = texts(values)
    is_missing = _are_missing(written, reading, missing)
    gaps = polars.DataFrame({"row": is_missing.arg_true(), "text": written.filter(is_missing)})
    values = written.set(is_missing, "") if len(gaps) else written  # without a copy
    return ColumnValues("text", values, gaps, gaps.clear())


def complaint(text: str, remedy: str) -> str:
    """Why a text, which the message has before, is not a finite number, and the remedy."""
    if (number := parsed(text)) is None or math.isfinite(number):
        looks = " looks like a date, and" if LIKE_DATE.match(text) else ""
        hint = "; data.decimal and data.thousands say how numbers are written"
        is_separated = not looks and SEPARATED.fullmatch(text)
        return f"{looks} is not a number; correct it, or {remedy}{hint if is_separated else ''}"
    return " is not a finite number; correct or remove the row"


def _with_odd(kind: Kind, known: Any, values: polars.Series, reading: Reading) -> ColumnValues:
    """The column with the values `known`, and those that are null there: missing or wrong."""
    rows = known.is_null().arg_true()
    odd = polars.DataFrame({"row": rows, "text": texts(values.gather(rows))})
    is_missing = _are_missing(odd["text"], reading, reading.missing_texts())
    return ColumnValues(kind, known, odd.filter(is_missing), odd.filter(~is_missing))


def _are_missing(
    written: polars.Series, reading: Reading, missing: Collection[str]
) -> polars.Series:
    numbers = plain(written, reading).cast(polars.Float64, strict=False)
    return written.is_in([*missing]) | numbers.is_in(reading.missing_numbers).fill_null(False)


def _kind(values: polars.Series, reading: Reading) -> Kind:
    """The kind of a column without a finite number, by its different values.

    Date if at least half are dates; number if one is infinite or has a decimal comma, or half look
    like numbers; else text.
    """
    number_of_dates = sum(days(value, reading.date_format) is not None for value in values)
    if 0 < len(values) <= 2 * number_of_dates:  # the others are mistakes
        return "date"
    is_any = any(parsed(text) is not None or DECIMAL_COMMA.fullmatch(text) for text in values)
    is_number = 2 * values.str.contains(LIKE_NUMBER).sum() >= len(values)
    return "number" if is_any or is_number or reading.text == "refuse" else "text"


def plain(texts: polars.Series, reading: Reading) -> polars.Series:
    """The texts with a decimal point, without thousands separators; null if malformed."""
    texts = texts.str.replace("^\u2212", "-")
    if reading.thousands is not None:
        mark, point = SEPARATORS[reading.thousands], SEPARATORS[reading.decimal]
        # in India the groups before the last have two digits
        grouped = rf"^[+-]?[1-9]\d{{0,2}}(?:{mark}\d{{2,3}})*{mark}\d{{3}}(?:{point}\d*)?$"
        joined = texts.str.replace_all(mark, "")
        texts = joined.zip_with(texts.str.contains(grouped), texts)
    if reading.decimal == ",":
        # a point would divide thousands: 1.234 is 1234 there
        texts = texts.set(texts.str.contains(".", literal=True), None)
        texts = texts.str.replace_all(",", ".", literal=True)
    return texts


def finite(values: polars.Series, reading: Reading) -> polars.Series:
    """The values as finite numbers that are not missing; null for others."""
    if values.dtype.is_float() and values.dtype != polars.Float64 or values.dtype.is_decimal():
        values = values.cast(polars.String)  # 0.1, as a text file has it, not 0.10000000149
    elif not values.dtype.is_numeric():
        values = plain(texts(values), reading)
    numbers = values.cast(polars.Float64, strict=False)
    return numbers.set(~numbers.is_finite() | numbers.is_in(reading.missing_numbers), None)


def are_dates(texts: Collection[str], date_format: str) -> bool:
    """Whether the texts, at least one, are all dates of this format."""
    return bool(texts) and all(days(text, date_format) is not None for text in texts)


def date_formats(texts: Collection[str]) -> list[str]:
    """The formats in DATES that all these texts have."""
    if not all(map(LIKE_DATE.search, texts)):
        return []
    return [each for each in DATES if are_dates(texts, each)]


def arguments(options: Mapping[str, Any], mark: str = " ") -> str:
    """The options as arguments for a shell."""
    values = {name: json.dumps(value, ensure_ascii=False) for name, value in options.items()}
    return mark.join(shlex.quote(f"data.{name}={value}") for name, value in values.items())
