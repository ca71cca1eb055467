"""The values of one column of a table: numbers, dates or texts, inferred from all of them.

Numbers are as people write them: with decimal commas, thousands separators and units.

    >>> import polars
    >>> from andiron.data.on_disk.columns import Reading
    >>> rooms = typed(polars.Series(["3", "many", ""]), None, Reading())
    >>> rooms.kind, rooms.missing.rows(), rooms.wrong.rows()
    ('number', [(2, '')], [(1, 'many')])
    >>> prices = polars.Series(["1.234,50", "850", "2.400"])
    >>> finite(prices, Reading(decimal=",", thousands=".")).to_list()
    [1234.5, 850.0, 2400.0]
    >>> most_read(prices, Reading()).options
    {'decimal': ',', 'thousands': '.'}
"""

import dataclasses
import json
import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import polars

from andiron.data.on_disk.columns import MISSING, Kind, Reading, days, parsed

DECIMAL_COMMA = re.compile(r"[+-]?[\d.]*,\d+")
NONE_ODD = polars.DataFrame(schema={"row": polars.UInt32, "text": polars.String})
DATE = re.compile(r"\d{1,4}([./-])\d{1,2}\1(\d{2}|\d{4})\b")
MOST_LOOKED_AT = 1000  # texts of a column, to guess its format
UNIT = r"(%|‰|\p{Sc}|EUR|USD|GBP|CHF)"  # Sc: signs of currencies
FORMATS: tuple[Mapping[str, Any], ...] = (  # by preference
    {}, {"decimal": ","}, {"decimal": ",", "thousands": "."}, {"thousands": ","},
    {"thousands": " "}, {"decimal": ",", "thousands": " "}, {"thousands": "'"},
    {"decimal": ",", "thousands": "'"}, {"thousands": "."}, {"decimal": "."},
)  # fmt: skip
MARKS = {",": "comma", ".": "point", " ": "space", "'": "quote"}
SHORT = re.compile(r"[+-]?\d{1,3}")
POINTED = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")
GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
SEPARATORS = {".": r"\.", ",": ",", " ": r"\s", "'": "['\u2019]"}  # as patterns
DATES = [
    day + time
    for day in ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d",
                "%d.%m.%y", "%d/%m/%y", "%m/%d/%y")
    for time in ("", " %H:%M", " %H:%M:%S")
]  # fmt: skip


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
    """The values of a column as text; "" if missing. Booleans are true and false."""
    if isinstance(values.dtype, polars.Datetime):
        return polars.Series([*map(text_of, values)], dtype=polars.String)
    if values.dtype.is_float():
        values = values.fill_nan(None)
    return values.cast(polars.String).fill_null("").str.strip_chars()


def typed(values: polars.Series, kind: Kind | None, reading: Reading) -> ColumnValues:
    """The values of a column of this kind, by default inferred."""
    if kind is None and (
        isinstance(values.dtype, polars.Date | polars.Datetime)
        # numbers too, such as 20240531
        or reading.date_format and are_dates({*texts(values)} - MISSING, reading.date_format)
    ):
        kind = "date"
    if kind in (None, "number"):
        numbers = finite(values, reading)
        column = with_odd("number", numbers, [odd_values(values, numbers)], reading)
        if kind is None and not numbers.count():
            kind = _kind(column.wrong["text"].unique(), reading)
        if kind in (None, "number"):
            return column
    if kind == "text":
        return untyped(values, reading, reading.missing_texts(is_text=True))
    written = texts(values)
    known = {text: days(text, reading.date_format) for text in written.unique()}
    if reading.date_format is not None:  # as a data frame has them
        known |= {text: days(text, None) for text in known if text[4:5] == "-" == text[7:8]}
    dates = written.replace_strict(known, default=None, return_dtype=polars.Float64)
    return with_odd("date", dates, [odd_values(values, dates)], reading)


def untyped(values: polars.Series, reading: Reading, missing: Collection[str]) -> ColumnValues:
    """The texts of a column of categories or classes; `missing` are no values."""
    written = texts(values)
    is_missing = _are_missing(written, reading, missing)
    gaps = polars.DataFrame({"row": is_missing.arg_true(), "text": written.filter(is_missing)})
    values = written.set(is_missing, "") if len(gaps) else written  # without a copy
    return ColumnValues("text", values, gaps, gaps.clear())


def complaint(text: str, remedy: str, hint: str = "") -> str:
    """Why a text, which the message has before, is not a finite number, and the remedy."""
    if parsed(text) is None or hint:
        looks = " looks like a date, and" if DATE.match(text) else ""
        return f"{looks} is not a number; correct it, or {remedy}{hint}"
    return " is not a finite number; correct or remove the row"


def odd_values(values: polars.Series, known: polars.Series, row: int = 0) -> polars.DataFrame:
    """The row, counted from `row`, and the text of each value that is null in `known`."""
    rows = known.is_null().arg_true()
    return polars.DataFrame({"row": rows + row, "text": texts(values.gather(rows))})


def with_odd(
    kind: Kind, known: Any, odd: Iterable[polars.DataFrame], reading: Reading
) -> ColumnValues:
    """The column with the values `known`, and the `odd` ones, which are missing or wrong."""
    every = polars.concat([NONE_ODD, *odd])
    is_missing = _are_missing(every["text"], reading, reading.missing_texts())
    return ColumnValues(kind, known, every.filter(is_missing), every.filter(~is_missing))


def _are_missing(
    written: polars.Series, reading: Reading, missing: Collection[str]
) -> polars.Series:
    numbers = plain(written, reading).cast(polars.Float64, strict=False)
    return written.is_in([*missing]) | numbers.is_in(reading.missing_numbers).fill_null(False)


def _kind(values: polars.Series, reading: Reading) -> Kind:
    """The kind of a column without a finite number, by its different values.

    Number if any value looks like one; date if at least half of the others are; else text.
    """
    # a number that is not finite, or has a decimal comma
    if any(parsed(text) is not None or DECIMAL_COMMA.fullmatch(text) for text in values):
        return "number"
    number_of_dates = sum(days(value, reading.date_format) is not None for value in values)
    if 0 < len(values) <= 2 * number_of_dates:  # the others are mistakes
        return "date"
    looked_at = values.head(MOST_LOOKED_AT)
    is_number = 2 * len(most_read(looked_at, reading).texts) >= len(looked_at)
    return "number" if is_number or reading.text == "refuse" else "text"


class Format(NamedTuple):
    """Options, and the texts that they read as numbers."""

    options: dict[str, Any]
    texts: frozenset[str] = frozenset()


def any_unit(units: Iterable[str]) -> str:
    """A pattern of these units, the longest first."""
    return "|".join(map(re.escape, sorted(units, key=len, reverse=True)))


def plain(texts: polars.Series, reading: Reading) -> polars.Series:
    """The texts with a decimal point, without units and thousands separators; null if malformed."""
    texts = texts.str.replace("^\u2212", "-")
    if reading.units:
        units = any_unit(reading.units)
        texts = texts.str.replace(rf"^([+-]?)\s*(?:{units})\s*", "${1}")
        texts = texts.str.replace(rf"\s*(?:{units})$", "")
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
        values = plain(values.cast(polars.String), reading)
    numbers = values.cast(polars.Float64, strict=False)
    return numbers.set(~numbers.is_finite() | numbers.is_in(reading.missing_numbers), None)


def most_read(texts: polars.Series, reading: Reading) -> Format:
    """The options beside `reading` that read most of the texts as numbers."""
    texts = texts.head(MOST_LOOKED_AT)
    given = reading.units or ()
    found = texts.str.extract(rf"(?:^[+-]?\s*|\d\s*){UNIT}(?:\s*\d|$)")
    units = sorted({*found} - {None, *given})
    best = Format({})
    for options in FORMATS:
        if units:
            options = {**options, "units": [*given, *units]}
        tried = dataclasses.replace(reading, **options)
        changed = {name: new for name, new in options.items() if new != getattr(reading, name)}
        is_read = finite(texts, tried).is_not_null()
        if tried.thousands != tried.decimal and is_read.sum() > len(best.texts):
            best = Format(changed, frozenset(texts.filter(is_read)))
    return best


def may_be_thousands(texts: Iterable[str]) -> bool:
    """Whether some numbers have up to three digits, and all others a point before three digits."""
    kinds = {"short" if SHORT.fullmatch(text) else "grouped" if POINTED.fullmatch(text) else "other"
             for text in texts if text}  # fmt: skip
    return kinds == {"short", "grouped"}


def hint(options: Mapping[str, Any], text: str) -> str:
    """How a text looks under these options, and how to set them; "" without options."""
    looks = {
        "decimal": f"has a decimal {MARKS[options.get('decimal', '.')]}",
        "thousands": f"has a {MARKS[options.get('thousands', '.')]} between thousands",
        "units": f"has a unit ({', '.join(options.get('units', ()))})",
    }
    if not options:
        return ""
    reasons = " and ".join(looks[name] for name in options)
    found = f"; if it {reasons}, set {arguments(options, ' and ')}"
    if options == FORMATS[1] and GROUPED.fullmatch(text):
        found += hint(FORMATS[3], text)
    return found


def are_dates(texts: Collection[str], date_format: str) -> bool:
    """Whether the texts, at least one, are all dates of this format."""
    return bool(texts) and all(days(text, date_format) is not None for text in texts)


def arguments(options: Mapping[str, Any], mark: str = " ") -> str:
    """The options as arguments for a shell."""
    values = {name: json.dumps(value, ensure_ascii=False) for name, value in options.items()}
    return mark.join(shlex.quote(f"data.{name}={value}") for name, value in values.items())
