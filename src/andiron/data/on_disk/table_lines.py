"""The lines of a delimited text file as columns, and the invalid lines."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars
import torch
from jaxtyping import Float, Int

from andiron import errors
from andiron.data.on_disk import column_values, columns
from andiron.data.on_disk.columns import Request
from andiron.data.on_disk.table_files import Table
from andiron.plain import readable

GAP = "fill it in, or remove the row"
FEATURE_GAP = "fill it in, remove the row, or set data.missing=median"
CLASS_GAP = ", or set data.missing=drop; if it is a class, set data.missing_values=[]"
MOST_SHOWN = 5  # bad lines
log = logging.getLogger("andiron")


Problems = dict[int, str]  # why a row cannot be used, after its number


@dataclass(eq=False)
class TableLines:
    """The values of the chosen columns, row by row; `checked` removes invalid rows."""

    source: str  # the file, in messages; empty for rows from Python
    table: Table
    request: Request

    def checked(self) -> columns.Columns:
        """The rows without bad ones, at most `max_bad_lines`, and those dropped for a gap.

        Raises: DataError listing the first bad lines if there are more.
        """
        lines, request = self.table.lines, self.request
        reading = request.reading
        self.values = {
            name: column_values.typed(self._column(name), reading.kinds.get(name), reading)
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
            name: column_values.typed(self._column(name), "number", reading)
            if request.has_number_targets
            else column_values.untyped(self._column(name), reading, classes)
            for name in request.texts
        }
        self._warn_of_dates()
        dropped, wrong = self._problems()
        bad = dict(self.table.bad) | {lines[row]: fault for row, fault in wrong.items()}
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

    def _column(self, name: str) -> polars.Series:
        return self.table.frame[name].alias("")  # polars takes the name ^a$ for a pattern

    def _warn_of_dates(self) -> None:
        """Names a column of dates in another format, which is read as categories."""
        reading = self.request.reading
        for name, column in self.values.items() if reading.date_format is None else ():
            if column.kind == "text" and name not in (*reading.kinds, *self.request.texts):
                some = {*column.values.head(column_values.MOST_LOOKED_AT)} - columns.MISSING
                if formats := column_values.date_formats(some):
                    log.warning(
                        "%s: column %r looks like dates, and is read as categories; set "
                        "data.date_format=%s", self.source, name, " or ".join(map(repr, formats)),
                    )  # fmt: skip

    def _problems(self) -> tuple[Problems, Problems]:
        """The rows to drop, and the wrong rows with the first reason of each."""
        gaps, wrong, missing = Problems(), Problems(), self.request.missing
        self.gaps, self.odd = list[str](), list[str]()  # features
        for name, column in self.values.items():
            is_target = name in self.request.texts
            if len(column.wrong) and not is_target:
                self.odd.append(name)
            for row, text in column.wrong.iter_rows():
                wrong.setdefault(row, f", column {name!r}: {text!r}{self._why(name, text)}")
            if missing not in ("refuse", "drop") and not is_target or not len(column.missing):
                continue
            is_open = not is_target and self.request.max_bad_lines is not None
            if is_open:
                self.gaps.append(name)
            for row, text in column.missing.iter_rows():
                shown = f" ({text!r})" if text else ""
                of_class = CLASS_GAP if shown and is_target and column.kind == "text" else ""
                why = f"; {FEATURE_GAP if is_open else GAP}{of_class}"
                gaps.setdefault(row, f", column {name!r}: has no value{shown}{why}")
        if missing == "drop":
            return gaps, {row: fault for row, fault in wrong.items() if row not in gaps}
        return {}, gaps | wrong

    def _why(self, name: str, text: str) -> str:
        if self.values[name].kind == "date":
            wanted = self.request.reading.date_format or "YYYY-MM-DD"
            return f" is not a date {wanted}; correct it, or remove the row"
        is_target = name in self.request.texts
        remedy = "remove the row" if is_target else "leave the column out of data.features"
        return column_values.complaint(text, remedy)

    def _report(self, bad: Problems, dropped: int) -> dict[str, Any]:
        """The skipped rows, for the record.

        Raises: DataError if more than `max_bad_lines` lines are bad.
        """
        if len(bad) > (self.request.max_bad_lines or 0):
            raise errors.DataError(self._refusal(bad))
        record: dict[str, Any] = {}
        if bad:
            record["skipped_lines"] = sorted(bad)
            listed = readable.printable(self._listed(bad))
            log.warning("%s: %d lines are skipped:\n%s", self.source, len(bad), listed)
        if dropped:
            record["dropped_rows"] = dropped
            worst = max(self.values, key=lambda name: len(self.values[name].missing))
            log.info(
                "%s: dropped %d of %d rows, for a missing value; column %r has most",
                self.source, dropped, len(self.table.lines), worst,
            )  # fmt: skip
        return record

    def _listed(self, bad: Problems) -> str:
        """The first bad lines, and the number of others."""
        first = [f"  {self.table.unit} {line}{bad[line]}" for line in sorted(bad)[:MOST_SHOWN]]
        more = len(bad) - len(first)
        return "\n".join([*first, f"  and {more} more"] if more else first)

    def _refusal(self, bad: Problems) -> str:
        most, unit, request = self.request.max_bad_lines, self.table.unit, self.request
        is_all = len(bad) == len(self.table.lines) + len(self.table.bad)
        if len(bad) == 1:
            skip = "; data.max_bad_lines=1 skips it" if most == 0 and not is_all else ""
            return _placed(self.source, self._listed(bad).strip()) + skip
        found = f"{'all ' if is_all else ''}{len(bad)} {unit}s cannot be used"
        allowed = f"; data.max_bad_lines={most} skips fewer" if most else ""
        wrong, given = [*dict.fromkeys([*self.gaps, *self.odd])], request.reading.kinds
        excluded = [name for name in request.exclude if name not in request.kept]
        as_text = [name for name in (*given, *self.odd) if given.get(name, "text") == "text"]
        column = column_values.arguments
        remedies = {
            "correct them": True,
            f"leave out columns ({column({'exclude': [*excluded, *wrong]})})":
                wrong and request.features is None,
            "fill missing values (data.missing=median)": self.gaps,
            f"read them as text ({column({'categories': as_text})})": self.odd,
            f"skip lines (data.max_bad_lines={len(bad)})": not is_all,
        }  # fmt: skip
        *others, last = filter(remedies.get, remedies)
        is_open = others and most is not None
        remedy = f"{', '.join(others)}, or {last}" if is_open else "correct them"
        return f"{_placed(self.source, found, ': ')}{allowed}:\n{self._listed(bad)}\n{remedy}"

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
        return columns.Columns(
            source=source,
            names=tuple(features),
            numbers=torch.from_numpy(self._matrix(texts)[rows]),
            texts={name: self.values[name].values[rows] for name in (*texts, *self.request.texts)},
            reading=self.request.reading,
            kept={
                name: column_values.texts(self._column(name))[rows] for name in self.request.kept
            },
            row_name=lambda row: _placed(source, f"{unit} {lines[kept[row]]}"),
            dates=of_kind["date"],
            record=record,
            refused=refused,
        )

    def _matrix(self, texts: Sequence[str]) -> Float[np.ndarray, "rows columns"]:
        """The numbers and dates, in the order of the features; NaN where one is missing."""
        names = [name for name in self.table.features if name not in texts]
        matrix = np.empty((len(self.table.lines), len(names)))
        for column, name in zip(matrix.T, names):
            column[:] = self.values[name].values
        return matrix


def _placed(source: str, place: str, mark: str = ", ") -> str:
    return f"{source}{mark}{place}" if source else place
