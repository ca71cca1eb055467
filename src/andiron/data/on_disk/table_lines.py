"""The lines of a delimited text file as columns, and the invalid lines."""

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars
import torch
from jaxtyping import Float, Int

from andiron import errors
from andiron.data.on_disk import column_values, columns
from andiron.data.on_disk.columns import Request, parsed
from andiron.data.on_disk.table_files import Table, Unreadable
from andiron.plain import readable

GAP = "fill it in, or remove the row"
FEATURE_GAP = "fill it in, remove the row, or set data.missing=median"
FILLS = {GAP: "drop", FEATURE_GAP: "median"}  # the options for `missing`, by remedy
CLASS_GAP = ", or set data.missing=drop; if it is a class, set data.missing_values=[]"
MOST_PLACEHOLDERS = 5  # of a column
MOST_ALIKE = 5  # lines with the same fault that are listed one by one
log = logging.getLogger("andiron")


class Fault(NamedTuple):
    """Why a line cannot be used, after its number, in three parts; the middle is its value."""

    head: str
    value: str = ""
    tail: str = ""


Problems = dict[int, Fault]  # by row


@dataclass(eq=False)
class TableLines:
    """The values of the chosen columns, row by row; `checked` removes invalid rows."""

    source: str  # the file, in messages; empty for rows from Python
    table: Table
    request: Request
    fills: Sequence[tuple[str, str]] = ()  # options for gaps, by preference

    def checked(self) -> columns.Columns:
        """The rows without bad ones, at most `max_bad_lines`, and those dropped for a gap.

        Raises: Unreadable listing the bad lines if there are more.
        """
        frame, lines, request = self.table.frame, self.table.lines, self.request
        reading = request.reading
        numbers = dict(zip(self.table.odd, self.table.numbers.T))
        self.values = {
            name: column_values.with_odd("number", numbers[name], self.table.odd[name], reading)
            if name in numbers
            else column_values.typed(frame[name], reading.kinds.get(name), reading)
            for name in self.table.features
        }
        kinds = [column.kind for column in self.values.values()]
        if None not in (request.max_bad_lines, reading.date_format) and "date" not in kinds:
            raise errors.DataError(
                f"data.date_format={reading.date_format}: no column of {self.source} has such "
                "dates; correct it (31.12.2024 is %d.%m.%Y), or leave it out"
            )
        classes = reading.missing_texts() - {*reading.classes}
        self.values |= {
            name: column_values.typed(frame[name], "number", reading)
            if request.has_number_targets
            else column_values.untyped(frame[name], reading, classes)
            for name in request.texts
        }
        self._warn_of_units()
        self.options = self._suggested_numbers() | self._suggested_dates()
        dropped, wrong = self._problems()
        bad = {line: Fault(why) for line, why in self.table.bad.items()}
        bad |= {lines[row]: fault for row, fault in wrong.items()}
        kept = np.delete(np.arange(len(lines)), [*dropped, *wrong])
        refused = self._refusal(bad) if request.is_partial and bad and len(kept) else ""
        record = self._report({} if refused else bad, len(dropped))
        if not len(kept):
            empty = [name for name, each in self.values.items() if len(each.missing) == len(lines)]
            what = "all rows are skipped or dropped" if len(lines) else "has a header and no rows"
            why = f"; no row has a value in {', '.join(empty)}: leave it out (data.exclude)"
            raise errors.DataError(
                f"{self.source or 'the table'}: {what}{why if len(lines) and empty else ''}; "
                "there is nothing to learn from"
            )
        return self._columns(kept, record, refused)

    def _warn_of_units(self) -> None:
        """Logs columns of numbers in several units, or in percent beside plain numbers."""
        known = self.request.reading.units or ()
        for name, column in self.values.items() if known else ():
            if column.kind == "number" and name in self.table.frame:
                read = self.table.frame[name].filter(column.values.is_not_null())
                pattern = column_values.any_unit(known)
                units = {*column_values.texts(read).str.extract(f"({pattern})")}
                if len(units - {None}) > 1 or {"%", None} <= units:
                    listed = readable.joined(sorted(unit or "no unit" for unit in units))
                    log.warning(
                        "%s: column %r has numbers in different units (%s), which are read without "
                        "them; convert them to one in the file", self.source, name, listed,
                    )  # fmt: skip

    def _suggested_numbers(self) -> dict[str, Any]:
        """The options that read most of the wrong values, as numbers or as missing."""
        wrong = [column.wrong["text"] for column in self.values.values()]
        odd = polars.concat([polars.Series([""]), *wrong])
        reading = self.request.reading
        self.best = column_values.most_read(odd.unique(maintain_order=True), reading)
        left = odd.filter(~odd.is_in([*self.best.texts]) & ~odd.str.contains(r"^[^#]*\d"))
        tokens = [text for text, number in left.value_counts().iter_rows()
                  if text and parsed(text) is None and text.lower() not in columns.BOOLEANS
                  and (number > 1 or not text.isalpha())]  # fmt: skip
        if not 0 < len(tokens) <= MOST_PLACEHOLDERS:
            return self.best.options
        return self.best.options | {
            "missing_values": [*(reading.missing_values or ()), *sorted(tokens)]
        }

    def _suggested_dates(self) -> dict[str, Any]:
        """The format of dates in columns that are read as categories."""
        reading = self.request.reading
        for name, column in self.values.items() if reading.date_format is None else ():
            if column.kind == "text" and name not in (*reading.kinds, *self.request.texts):
                some = {*column.values.head(column_values.MOST_LOOKED_AT)} - columns.MISSING
                formats = [each for each in column_values.DATES
                           if column_values.are_dates(some, each)]  # fmt: skip
                if formats:
                    log.warning(
                        "%s: column %r looks like dates, and is read as categories; set "
                        "data.date_format=%s", self.source, name, " or ".join(map(repr, formats)),
                    )  # fmt: skip
                    return {"date_format": formats[0]}
        return {}

    def _problems(self) -> tuple[Problems, Problems]:
        """The rows to drop, and the wrong rows with the first reason of each."""
        gaps, wrong, missing = Problems(), Problems(), self.request.missing
        for name, column in self.values.items():
            is_target = name in self.request.texts
            where = f", column {name!r}: "
            for row, text in column.wrong.iter_rows():
                wrong.setdefault(row, Fault(where, repr(text), self._why(name, text)))
            if missing not in ("refuse", "drop") and not is_target:
                continue
            is_open = not is_target and self.request.max_bad_lines is not None
            for row, text in column.missing.iter_rows():
                shown = f" ({text!r})" if text else ""
                of_class = CLASS_GAP if shown and is_target and column.kind == "text" else ""
                why = f"; {FEATURE_GAP if is_open else GAP}{of_class}"
                gaps.setdefault(row, Fault(f"{where}has no value", shown, why))
        if missing == "drop":
            return gaps, {row: fault for row, fault in wrong.items() if row not in gaps}
        self.fills = [("missing", option) for remedy, option in FILLS.items()
                      if any(remedy in fault.tail for fault in gaps.values())]  # fmt: skip
        return {}, gaps | wrong

    def _why(self, name: str, text: str) -> str:
        if self.values[name].kind == "date":
            wanted = self.request.reading.date_format or "YYYY-MM-DD"
            return f" is not a date {wanted}; correct it, or remove the row"
        hint = column_values.hint(self.best.options, text) if text in self.best.texts else ""
        is_target = name in self.request.texts
        remedy = "remove the row" if is_target else "leave the column out of data.features"
        return column_values.complaint(text, remedy, hint)

    def _report(self, bad: Problems, dropped: int) -> dict[str, Any]:
        """The skipped rows, for the record.

        Raises: Unreadable if more than `max_bad_lines` lines are bad.
        """
        if len(bad) > (self.request.max_bad_lines or 0):
            raise Unreadable(self._refusal(bad), self.options | dict(self.fills[:1]))
        record: dict[str, Any] = {}
        if bad:
            record["skipped_lines"] = sorted(bad)
            listed = readable.printable(readable.listed(self._places(bad)))
            log.warning("%s: %d lines are skipped:\n%s", self.source, len(bad), listed)
        if dropped:
            record["dropped_rows"] = dropped
            worst = max(self.values, key=lambda name: len(self.values[name].missing))
            log.info(
                "%s: dropped %d of %d rows, for a missing value; column %r has most",
                self.source, dropped, len(self.table.lines), worst,
            )  # fmt: skip
        return record

    def _places(self, bad: Problems) -> list[str]:
        """The bad lines in order, each with its fault; a frequent cause only once."""
        alike: dict[tuple[str, str], list[int]] = defaultdict(list)
        for line in sorted(bad):
            alike[bad[line].head, bad[line].tail].append(line)
        places, unit = dict[int, str](), self.table.unit
        for first, *more in alike.values():
            same = ""
            if len(more) >= MOST_ALIKE:
                same, more = f"; the same in {len(more)} more {unit}s: {readable.joined(more)}", []
            places |= {n: f"{unit} {n}{''.join(bad[n])}{same}" for n in (first, *more)}
        return [places[line] for line in sorted(places)]

    def _refusal(self, bad: Problems) -> str:
        places, most = self._places(bad), self.request.max_bad_lines
        is_all = len(bad) == len(self.table.lines) + len(self.table.bad)
        if len(bad) == 1:
            skip = "; data.max_bad_lines=1 skips it" if self.table.bad and most == 0 else ""
            return _placed(self.source, places[0]) + skip
        found = f"{'all ' if is_all else ''}{len(bad)} {self.table.unit}s cannot be used"
        head = _placed(self.source, found, ": ")
        allowed = f"; data.max_bad_lines={most} skips fewer" if most else ""
        gaps = sum(FEATURE_GAP in fault.tail for fault in bad.values())
        remedies = {
            "correct them, leave out columns (data.exclude)": True,
            "fill missing values (data.missing=median)": gaps > 0,
            "read them as text (data.categories)": gaps < len(bad),
            f"skip lines (data.max_bad_lines={len(bad)})": not is_all,
        }
        *others, last = filter(remedies.get, remedies)
        remedy = "correct them" if most is None else f"{', '.join(others)}, or {last}"
        return f"{head}{allowed}:\n{readable.listed(places)}\n{remedy}"

    def _columns(
        self, kept: Int[np.ndarray, " rows"], record: dict[str, Any], refused: str
    ) -> columns.Columns:
        features, of_kind = self.table.features, dict[str, list[str]]()
        for kind, what in (("text", "categories"), ("date", "dates")):
            of_kind[kind] = [name for name in features if self.values[name].kind == kind]
            if of_kind[kind]:
                listed = ", ".join(of_kind[kind])
                log.info("%s: columns read as %s: %s", self.source, what, listed)
        texts = of_kind["text"]
        source, unit, lines = self.source, self.table.unit, self.table.lines  # without the values
        rows = slice(None) if len(kept) == len(lines) else kept
        frame = self.table.frame
        return columns.Columns(
            source=source,
            names=tuple(features),
            numbers=torch.from_numpy(self._matrix(texts)[rows]),
            texts={name: self.values[name].values[rows] for name in (*texts, *self.request.texts)},
            reading=self.request.reading,
            kept={name: column_values.texts(frame[name])[rows] for name in self.request.kept},
            row_name=lambda row: _placed(source, f"{unit} {lines[kept[row]]}"),
            dates=of_kind["date"],
            record=record,
            suggested=self.options,
            refused=refused,
        )

    def _matrix(self, texts: Sequence[str]) -> Float[np.ndarray, "rows columns"]:
        """The numbers and dates, in the order of the features; NaN where one is missing."""
        names = [name for name in self.table.features if name not in texts]
        if names and names == [*self.table.odd]:
            return self.table.numbers
        matrix = np.empty((len(self.table.lines), len(names)))
        for column, name in zip(matrix.T, names):
            column[:] = self.values[name].values
        return matrix


def _placed(source: str, place: str, mark: str = ", ") -> str:
    return f"{source}{mark}{place}" if source else place
