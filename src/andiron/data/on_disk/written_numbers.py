"""Numbers as people write them: decimal commas, thousands separators, units; and dates.

    >>> import polars
    >>> from andiron.data.on_disk.columns import Reading
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
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import polars

from andiron.data.on_disk.columns import Reading, days

MOST_LOOKED_AT = 1000  # texts of a column, to guess its format
UNIT = r"(%|‰|\p{Sc}|EUR|USD|GBP|CHF)"  # Sc: signs of currencies
FORMATS: tuple[Mapping[str, Any], ...] = (  # by preference
    {}, {"decimal": ","}, {"decimal": ",", "thousands": "."}, {"thousands": ","},
    {"thousands": " "}, {"decimal": ",", "thousands": " "}, {"thousands": "'"},
    {"decimal": ",", "thousands": "'"}, {"thousands": "."}, {"decimal": "."},
)  # fmt: skip
MARKS = {",": "comma", ".": "point", " ": "space", "'": "quote"}
POINTED = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")
GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
SEPARATORS = {".": r"\.", ",": ",", " ": r"\s", "'": "['\u2019]"}  # as patterns
DATES = [
    day + time
    for day in ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d",
                "%d.%m.%y", "%d/%m/%y", "%m/%d/%y")
    for time in ("", " %H:%M", " %H:%M:%S")
]  # fmt: skip


class Format(NamedTuple):
    """Options, and the texts that they read as numbers."""

    options: dict[str, Any]
    texts: frozenset[str] = frozenset()


def plain(texts: polars.Series, reading: Reading) -> polars.Series:
    """The texts with a decimal point, without units and thousands separators; null if malformed."""
    if reading.units:
        units = "|".join(map(re.escape, sorted(reading.units, key=len, reverse=True)))
        texts = texts.str.replace(rf"^([+-]?)\s*(?:{units})\s*", "${1}")
        texts = texts.str.replace(rf"\s*(?:{units})$", "")
    if reading.thousands is not None:
        mark, point = SEPARATORS[reading.thousands], SEPARATORS[reading.decimal]
        grouped = rf"^[+-]?[1-9]\d{{0,2}}(?:{mark}\d{{3}})+(?:{point}\d*)?$"
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
    """Whether some whole numbers have no point, and others only one before three digits."""
    kinds = {("whole" if "." not in text else "grouped" if POINTED.fullmatch(text) else "decimal",
              text.endswith("0")) for text in texts if text}  # fmt: skip
    return ("grouped", True) in kinds and {kind for kind, _ in kinds} == {"whole", "grouped"}


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
    settings = " and ".join(f"data.{name}={value!r}" for name, value in options.items())
    other = "" if not GROUPED.fullmatch(text) else (
        "; if it has a comma between thousands, set data.thousands=','"
    )
    return f"; if it {reasons}, set {settings}{other if options == FORMATS[1] else ''}"


def date_formats(texts: Iterable[str]) -> list[str]:
    """The formats, other than ISO 8601, that read all the texts as dates."""
    texts = [*texts]
    return [each for each in DATES if texts and all(days(text, each) is not None for text in texts)]


def arguments(options: Mapping[str, Any]) -> str:
    """The options as arguments for a shell."""
    values = {name: json.dumps(value, ensure_ascii=False) for name, value in options.items()}
    return " ".join(shlex.quote(f"data.{name}={value}") for name, value in values.items())
