"""The values of one column of a table: numbers, dates or texts, inferred from all of them.

    >>> import polars
    >>> from andiron.data.on_disk.columns import Reading
    >>> texts = polars.Series(["3", "many", ""])
    >>> kind, rooms = typed(texts, None, Reading())
    >>> kind, odd(texts, rooms, Reading()).rows()
    ('number', [(1, 'many', False), (2, '', True)])
    >>> prices = polars.Series(["1.234,5", "850", "2.40"])
    >>> finite(prices, Reading(decimal=",", thousands=".")).to_list()
    [1234.5, 850.0, None]
"""

import re
from datetime import datetime
from decimal import Decimal
from typing import Literal

import polars

from andiron.data.on_disk.category_names import BOOLEANS, days
from andiron.data.on_disk.columns import Kind, Reading

MOST_LOOKED_AT = 1000  # of a column
SIGNS = "[%‰¢£¥€₹₽₩]|R?[$]|zł|Kč|kr|EUR|USD|GBP|CHF|PLN|CZK|SEK|NOK|DKK|BRL"
# such as 45 %, $9.50, 1.234,5 or inf; not >7 and 65+, which are classes
LIKE_NUMBER, LIKE_LIMIT = (
    re.compile(
        rf"[+-]?\s*({signs})?\s*(?:\d+(?:[.,'\s]\d{{3}})*[.,]?\d*|inf)\s*({signs})?",
        re.ASCII | re.I,
    )
    for signs in (SIGNS, f"[<>\u2264\u2265]=?|{SIGNS}")
)
LIKE_DATE = re.compile(  # a number such as 20240531, a month such as 2024-05 and a time too
    r".*\b(\d{1,4}[./ -]\d{1,2}[./ -]\d{2,4}|\d{4}([./-]\d{1,2}){2})\b.*"
    r"|(?=.*\d).*\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec).*"
    r"|\d{1,2}\.?\s+[^\W\d_]{3,}\.?\s+(19|20)\d\d|\d{4}年.*"
    r"|(19|20)\d\d([/-](0?[1-9]|1[0-2]|\d{3})|[01]\d[0-3]\d(\.0)?)|\d{1,2}(:\d\d){1,2}(\.\d+)?",
    re.I,
)
SEPARATORS = {".": r"\.", ",": ",", " ": r"\s", "'": "['\u2019]"}  # as patterns
EPOCH = 719_162  # days from 0001-01-01, the first of Python, to 1970-01-01
LAST_DAY = 2_932_896.0  # 9999-12-31
SMALL = (  # of the numbers that stay as they are
    polars.Float32, polars.Int8, polars.Int16, polars.Int32, polars.UInt8, polars.UInt16,
    polars.UInt32,
)  # fmt: skip
A_DAY = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def text_of(value: object, decimal: str = ".") -> str:
    """The text of a value from Python, as `texts` has it; "" if it is missing.

    A fraction is written with the `decimal` separator.
    """
    value = value.item() if hasattr(value, "item") else value  # of NumPy and torch
    # NAType is of pandas, not imported here; NaN and NaT do not equal themselves
    if value is None or type(value).__name__ == "NAType" or value != value:
        return ""
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    if isinstance(value, float | Decimal):
        return str(value).replace(".", decimal)
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


def texts(values: polars.Series) -> polars.Series:
    """The values of a column as text; "" if missing. Booleans are true and false."""
    if isinstance(values.dtype, polars.Date | polars.Datetime):
        # NumPy has years that Python has not
        written = polars.Series([*map(str, values.to_numpy())], dtype=polars.String)
        return written.set(values.is_null(), "")
    if values.dtype == polars.Time:  # a cast drops fractions of a second
        values = values.dt.to_string("%H:%M:%S%.f")
    if values.dtype.is_float():
        values = values.fill_nan(None)
    return values.cast(polars.String).fill_null("").str.strip_chars()


def finite(values: polars.Series, reading: Reading) -> polars.Series:
    """The values as finite numbers that are not missing; null for others.

    They are in float64, or as they are stored in at most 32 bits.
    """
    if values.dtype in SMALL and not reading.missing_numbers:
        return values if values.is_finite().all() else values.set(~values.is_finite(), None)
    if values.dtype.is_float() and values.dtype != polars.Float64 or values.dtype.is_decimal():
        values = values.cast(polars.String)  # 0.1, as a text file has it, not 0.10000000149
    elif not values.dtype.is_numeric():
        values = _plain(texts(values), reading)
    numbers = values.cast(polars.Float64, strict=False)
    return numbers.set(~numbers.is_finite() | numbers.is_in(reading.missing_numbers), None)


def _plain(written: polars.Series, reading: Reading) -> polars.Series:
    """The texts with a decimal point, without separators of thousands.

    With a decimal comma a point can only divide thousands, and 1.5 is null.
    """
    written = written.str.replace("^\u2212", "-")
    written = written.str.replace(r"^(\d.*[.,]\d+)\s?-$", "-$1")  # of SAP; 2- may be a grade
    if reading.thousands is not None:
        mark, point = SEPARATORS[reading.thousands], SEPARATORS[reading.decimal]
        # in India the groups before the last have two digits
        grouped = rf"^[+-]?[1-9]\d{{0,2}}(?:{mark}\d{{2,3}})*{mark}\d{{3}}(?:{point}\d*)?$"
        joined = written.str.replace_all(mark, "")
        written = joined.zip_with(written.str.contains(grouped), written)
    if reading.decimal == ",":
        written = written.set(written.str.contains(".", literal=True), None)
        written = written.str.replace_all(",", ".", literal=True)
    return written


def may_divide_thousands(values: polars.Series, reading: Reading) -> bool:
    """Whether the points of a column of texts are all as in 1.234, beside numbers such as 987."""
    if values.dtype != polars.String or reading.decimal == "," or reading.thousands is not None:
        return False
    some = values.head(MOST_LOOKED_AT)
    written = some.filter(some.str.contains(r"\d"))
    divided = written.str.contains(r"^[+-]?[1-9]\d{0,2}\.\d{3}$")
    short = written.str.contains(r"^[+-]?\d{1,3}$")
    return divided.any() and short.any() and (divided | short).all()


def typed(
    values: polars.Series, kind: Kind | Literal["class"] | None, reading: Reading
) -> tuple[Kind, polars.Series]:
    """The kind, by default inferred, and the values: texts, numbers or days; null for others.

    In a column of booleans that is to be numbers, true is 1.
    """
    numbers = finite(values, reading) if kind in (None, "number") else values
    if kind == "number" and not numbers.count():  # labels of 0 and 1, as pandas writes them
        written = texts(values).str.to_lowercase()
        as_number = dict(zip(BOOLEANS, (1.0, 0.0)))
        numbers = written.replace_strict(as_number, default=None, return_dtype=polars.Float64)
    kind = kind or _kind(values, numbers, reading)
    if kind == "number":
        return kind, numbers
    if kind == "date":
        return kind, _dates(values, reading)
    missing = reading.missing_texts(is_text=kind == "text") - {*reading.classes}
    written = texts(values)
    return "text", written.set(written.is_in([*missing]), None)


def odd(values: polars.Series, known: polars.Series, reading: Reading) -> polars.DataFrame:
    """The row and the text of each value that is null in `known`, and whether it is missing."""
    rows = known.is_null().arg_true()
    written = texts(values.gather(rows))
    numbers = _plain(written, reading).cast(polars.Float64, strict=False)
    is_number = numbers.is_in(reading.missing_numbers).fill_null(False)
    is_missing = written.is_in([*reading.missing_texts()]) | is_number
    return polars.DataFrame({"row": rows, "text": written, "is_missing": is_missing})


def _kind(values: polars.Series, numbers: polars.Series, reading: Reading) -> Kind:
    """The kind of a column by its different values.

    Date if all have the `date_format`, numbers such as 20240531 too; number if one is finite.
    Otherwise date if at least half are dates, number if half look like numbers; else text.
    """
    if isinstance(values.dtype, polars.Date | polars.Datetime):
        return "date"
    is_number = numbers.count() > 0
    if is_number and reading.date_format is None:
        return "number"
    written = {*texts(values)} - reading.missing_texts()
    number_of_dates = sum(days(text, reading.date_format) is not None for text in written)
    if is_number:
        return "date" if number_of_dates == len(written) else "number"
    if 0 < len(written) <= 2 * number_of_dates:  # the others are mistakes
        return "date"
    looks = sum(LIKE_NUMBER.fullmatch(text) is not None for text in written)
    return "number" if 2 * looks >= len(written) else "text"


def _dates(values: polars.Series, reading: Reading) -> polars.Series:
    """Days since 1970-01-01 of dates in the given format, or as a data frame has them.

    Null for a year that is not from 1 to 9999.
    """
    if not isinstance(values.dtype, polars.Date | polars.Datetime):
        written = texts(values)
        known = {text: days(text, reading.date_format) for text in written.unique()}
        known |= {text: days(text, None) for text, day in known.items()
                  if day is None and text[4:5] == "-" == text[7:8]}  # fmt: skip
        return written.replace_strict(known, default=None, return_dtype=polars.Float64)
    numbers = values.to_physical().cast(polars.Float64)
    if isinstance(values.dtype, polars.Datetime):
        numbers = numbers / A_DAY[values.dtype.time_unit]
    return numbers.set(~numbers.is_between(-EPOCH, LAST_DAY + 1, closed="left"), None)
