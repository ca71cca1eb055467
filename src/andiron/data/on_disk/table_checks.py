"""Checks the rows of a table as they were read: columns of the valid rows, or the bad rows."""

import itertools
import logging
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
import polars

from andiron import errors
from andiron.data.on_disk import category_names, column_values, train_valid_test
from andiron.data.on_disk.columns import argument, Columns, Kind, Kinds, Reading, Request
from andiron.data.on_disk.table_files import Table
from andiron.plain import readable

Values = Mapping[str, polars.Series]  # of columns
MOST_SHOWN = 5  # bad rows
FEW_TEXTS = 50  # of a column
MOST_SUMS = 0.1  # of all rows
COMMA = (
    """set "data.decimal=','" if 1,5 is a fraction, with "data.thousands='.'" for 1.234,5, or """
    """"data.thousands=','" if 1,234 is over a thousand"""
)
DATE_FORMAT = (
    "set data.date_format, such as '%d.%m.%Y', '%Y%m%d', '%H:%M' or '%b %d %Y' (names of months "
    "are English)"
)
GROUPED = {  # by the separator as it is typed
    "' '": r"^-?\d{1,3}\s\d{3}",
    "'.'": r"^-?\d{1,3}\.\d{3}",
    r"\"'\"": "^-?\\d{1,3}['\u2019]\\d{3}",
}
MARKS = {  # of numbers, and what leaves the number: (9.50) is -9.50 in accounts
    r"^\([\d.,' ]+\)$": r's/(^|[,;|"\t]) ?[(]([0-9][0-9.,]*)[)]/\1-\2/g',
    r"^\d+\+$": r"s/([0-9])[+]([^0-9]|$)/\1\2/g",
}
log = logging.getLogger("andiron")


def checked(source: str, table: Table, request: Request) -> Columns:
    """The valid rows, without those that are dropped for a missing value.

    Raises: DataError listing the first bad rows, unless others are valid and it `is_partial`, or
    has at most `max_bad_lines`.
    """
    size = len(table.lines)
    kinds, values, kept_texts, odd = _typed(source, table, request)
    odd = polars.concat([odd, _repeated_headers(kinds, values)])
    _report_kinds(source, kinds, values, request)
    dropped = odd.filter("is_dropped")["row"].unique()
    bad = odd.filter(~odd["row"].is_in(dropped.implode())).sort("row", maintain_order=True)
    kept = np.delete(np.arange(size), [*dropped, *bad["row"]])
    skipped = sorted({*table.bad, *(table.lines[row] for row in bad["row"])})
    is_skipped = 0 < len(skipped) <= request.max_bad_lines
    refused = _refusal(source, table, request, bad, len(kept)) if skipped else ""
    lines = np.asarray(table.lines)[kept]
    if request.missing not in ("refuse", "drop"):
        _warn_of_sums(source, table.unit, lines, values, kinds, kept)
    if refused and not (len(kept) and (request.is_partial or is_skipped)):
        raise errors.DataError(refused)
    if not len(kept):
        empty = ", ".join(name for name, column in values.items() if not column.count())
        why = f"all rows are dropped; leave out columns without values (data.exclude): {empty}"
        raise errors.DataError(f"{source}: {why if size else 'has a header and no rows'}")
    if is_skipped:
        log.warning("skipped, by data.max_bad_lines=%d: %s", request.max_bad_lines, refused)
    if len(dropped):
        log.info("%s: dropped %d of %d rows, for a missing value", source, len(dropped), size)
    record = {"skipped_lines": skipped if is_skipped else [], "dropped_rows": len(dropped)}
    if len(kept) < size:
        for name in values:  # one column at a time in memory twice
            values[name] = values[name][kept]
    return Columns(
        source,
        values,
        kinds,
        request.reading,
        kept={name: kept_texts[name][kept] for name in request.kept},
        unit=table.unit,
        lines=lines,
        record={name: value for name, value in record.items() if value},
        refused=refused,
    )


def _repeated_headers(kinds: Kinds, values: Values) -> polars.DataFrame:
    """The rows of a table of texts that repeat its header, as below a page break."""
    is_header = polars.Series([False])
    if len(values) > 1 and {*kinds.values()} == {"text"}:  # else no number stands there
        is_header = reduce(
            and_, (column.cast(polars.String) == name for name, column in values.items())
        )
    no, first = polars.lit(False), polars.lit(next(iter(values)))
    return polars.DataFrame({"row": is_header.arg_true()}).with_columns(
        text=first, is_missing=no, is_dropped=no, column=first, kind=polars.lit("text")
    )


def _warn_of_sums(
    source: str, unit: str, lines: np.ndarray, values: Values, kinds: Kinds, kept: np.ndarray
) -> None:
    """Names rows with texts alone, as sums are, if they are few, or the last row is one."""
    quantities = [name for name in kinds if kinds[name] != "text"]
    names = quantities if len(quantities) > 1 else kinds
    bare = reduce(and_, (values[name].is_null() for name in names))[kept].arg_true()
    if len(bare) and (bare[-1] == len(lines) - 1 or len(bare) < MOST_SUMS * len(lines)):
        log.warning(
            "%s, %s %s: no number or date among the features of a sample; if it is a sum, remove "
            "it", source, unit, readable.joined(lines[bare].tolist()),
        )  # fmt: skip


def _typed(source: str, table: Table, request: Request) -> tuple[Any, ...]:
    """The kinds of the features, the values of columns, the further columns as text, and problems.

    Of a large file only the columns of one frame are in memory as they are stored.
    """
    kinds, kept_texts, problems = dict[str, Kind](), {}, []
    values = request.workspace.columns
    for column in itertools.chain.from_iterable(table.frames):
        # one piece, and no name: polars takes ^a$ for a pattern
        name, raw = column.name, column.rechunk().alias("")
        if name in request.kept:
            kept_texts[name] = column_values.texts(raw)
        if name in request.required or name in table.features:
            kind, known = column_values.typed(raw, request.kind_of(name), request.reading)
            values[name], odd = known, column_values.odd(raw, known, request.reading)
            if request.targets and column_values.may_divide_thousands(raw, request.reading):
                log.warning(
                    "%s: column %r has numbers as 1.234 and whole ones below 1000; set "
                    "data.thousands=. if the point divides thousands: it is read as a fraction",
                    source, name,
                )  # fmt: skip
            drops = request.missing != "refuse"
            if name not in request.required:
                kinds[name], drops = kind, request.missing == "drop"
                if request.missing not in ("refuse", "drop"):  # they are filled in
                    odd = odd.filter(~odd["is_missing"])
            further = {"column": polars.lit(name), "kind": polars.lit(kind)}
            problems.append(odd.with_columns(is_dropped=odd["is_missing"] & drops, **further))
    return kinds, values, kept_texts, polars.concat(problems)


def _report_kinds(source: str, kinds: Kinds, values: Values, request: Request) -> None:
    """Logs the columns that are not numbers, and those that should be read as dates.

    Raises: DataError for a date format that no column has.
    """
    date_format = request.reading.date_format
    if request.targets and date_format and "date" not in kinds.values():
        raise errors.DataError(
            f"data.date_format={date_format}: no column of {source} has such dates; correct it "
            "(31.12.2024 is %d.%m.%Y), or leave it out"
        )
    texts = {name: values[name].drop_nulls().n_unique()
             for name in kinds if kinds[name] == "text"}  # fmt: skip
    if texts:
        counted = ", ".join(f"{name} ({number} texts)" for name, number in texts.items())
        log.info("%s: columns read as categories: %s", source, counted)
    if dates := [name for name in kinds if kinds[name] == "date"]:
        log.info("%s: columns read as dates: %s", source, ", ".join(dates))
    _warn_of_columns(source, kinds, texts, values, request)


def _warn_of_columns(
    source: str, kinds: Kinds, texts: Mapping[str, int], values: Values, request: Request
) -> None:
    """Names columns that look like dates, and columns in which few rows share a text."""
    for name in kinds.keys() - request.reading.kinds.keys():
        if kinds[name] == "date":
            continue
        some = column_values.texts(values[name].drop_nulls().head(column_values.MOST_LOOKED_AT))
        dates = [*filter(column_values.LIKE_DATE.fullmatch, some)]
        if 2 * len(dates) > len(some):  # a sum may stand below them
            log.warning(
                "%s: column %r looks like dates, and is not read as such; %s", source, name,
                DATE_FORMAT if request.reading.date_format is None
                else "data.date_format is that of all dates: write them alike, leave out the "
                f"column ({argument('exclude', [*request.exclude, name])}), or keep it as it is "
                f"({argument('categories', [*request.reading.kinds, name])})",
            )  # fmt: skip
    if request.targets and request.features is None and not request.kept:
        few = [name for name, number in texts.items() if number <= FEW_TEXTS]
        distinct = {name: column_values.texts(values[name].drop_nulls().unique()) for name in few}
        train_valid_test.warn_of_columns(source, distinct)
        for name, names in distinct.items():
            known = category_names.distinct(names)  # True is TRUE
            category_names.warn_of_alike(f"{source}, column {name!r}", known)
    own = [name for name, number in texts.items() if name not in request.reading.kinds
           and number > FEW_TEXTS and 2 * number > len(values[name])]  # fmt: skip
    if own and request.targets and request.features is None:
        log.warning(
            "%s: few rows share a text in %s; such texts tell little of new rows, and each is an "
            "input unless data.categories=codes embeds them; leave them out with %s",
            source, ", ".join(map(repr, own)), argument("exclude", [*request.exclude, *own]),
        )  # fmt: skip


def _refusal(
    source: str, table: Table, request: Request, bad: polars.DataFrame, number_valid: int
) -> str:
    """The first bad rows, and the remedies."""
    first = bad.unique("row", keep="first", maintain_order=True)
    faults = dict(table.bad)
    for row, text, is_missing, _, name, kind in first.head(MOST_SHOWN).iter_rows():
        wanted = "a finite number"
        if kind == "date":
            wanted = f"a date {request.reading.date_format or 'YYYY-MM-DD'}"
        fault = f"{text!r} is {'the name of the column' if text == name else f'not {wanted}'}"
        if is_missing:
            fault = f"has no value ({text!r})" if text else "has no value"
        faults[table.lines[row]] = f", column {name!r}: {fault}"
    shown = [f"{table.unit} {line}{faults[line]}" for line in sorted(faults)[:MOST_SHOWN]]
    number, remedy = len(first) + len(table.bad), _remedy(bad, request, number_valid)
    if number_valid and number > request.max_bad_lines and not request.is_partial:
        remedy = f"{remedy}, or skip them with data.max_bad_lines={number}"
    if number == 1:
        return f"{source}, {shown[0]}; {remedy}" if source else f"{shown[0]}; {remedy}"
    more = f"  and {number - len(shown)} more\n" if number > len(shown) else ""
    lines = "".join(f"  {line}\n" for line in shown)
    where = f"{source}: " if source else ""
    return f"{where}{number} {table.unit}s cannot be used:\n{lines}{more}{remedy}"


def _without_signs(texts: polars.Series, encoding: str | None) -> list[str]:
    """The remedy for signs beside numbers, by a command that reads UTF-8."""
    like = [*filter(None, map(column_values.LIKE_LIMIT.fullmatch, texts))]
    signs = "|".join(sorted({sign.replace("$", "[$]") for text in like for sign in text.groups("")
                             if sign}))  # fmt: skip
    edits = [rf"s/({signs}) ?([0-9])/\2/g; s/([0-9]) ?({signs})/\1/g"] * bool(signs)
    edits += [edit for written, edit in MARKS.items() if texts.str.contains(written).any()]
    if not edits:
        return []
    command = f"sed -E '{'; '.join(edits)}' does"
    if encoding is not None:
        command = f"iconv -t utf-8 -f {encoding} | {command}, and then data.encoding"
    return [f"remove the signs, as {command}"]


def _spellings(texts: polars.Series, reading: Reading) -> Iterator[str]:
    """The remedies for decimals, thousands and signs that are written otherwise."""
    if "," not in (reading.decimal, reading.thousands) and texts.str.contains(r"\d,\d").any():
        yield COMMA
    some = column_values.texts(texts.head(column_values.MOST_LOOKED_AT))
    yield from _without_signs(some, reading.encoding)
    for typed, grouped in GROUPED.items():
        if reading.thousands is None and texts.str.contains(grouped).any():
            example = f"1{typed[len(typed) // 2]}234"
            yield f'set "data.thousands={typed}" if {example} is over a thousand'


def _remedy(bad: polars.DataFrame, request: Request, number_valid: int) -> str:
    """The remedies for these values, as the end of a message."""
    remedies, reading = ["correct or remove them"], request.reading
    if request.is_partial:
        return remedies[0]
    remedies += _spellings(bad["text"], reading)
    is_feature, is_gap = ~bad["column"].is_in(request.required), bad["is_missing"]
    is_feature &= bad["column"] != bad["text"]
    features = bad["column"].filter(is_feature).unique(maintain_order=True)
    is_further = set(request.features or ("",)) <= reading.kinds.keys()  # not the training file
    misread = bad.filter(is_feature & ~is_gap)
    wrong = misread["column"].unique(maintain_order=True)
    is_word = ~misread["text"].str.contains(r"^[^#]*\d")
    repeated = misread["text"].filter(misread["text"].is_duplicated() & is_word)
    if len(features) and request.features is None:
        remedies.append(f"leave out columns ({argument('exclude', [*request.exclude, *features])})")
    if is_gap.any():
        or_median = "" if is_further else "data.missing=median or "
        remedies.append(f"set {or_median}data.missing=drop")
    if not number_valid and request.has_number_targets and not is_feature.all():
        remedies.append("predict classes with data=csv")
    if len(wrong) and not is_further:
        remedies.append(f"read text ({argument('categories', [*reading.kinds, *wrong])})")
    if 0 < len(repeated) < number_valid:
        words = repeated.unique(maintain_order=True)
        gaps = [*map(str, reading.missing_values or ()), *words]
        remedies.append(f"take such texts as missing ({argument('missing_values', gaps)})")
    return ", or ".join(remedies)
