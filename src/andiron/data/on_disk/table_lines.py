"""The lines of a delimited text file as columns, and which lines are no rows of a table."""

import array
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.data.on_disk import columns, delimited_text
from andiron.data.on_disk.column_values import ColumnValues, Reading
from andiron.plain import readable

GAP = "fill it in, or remove the row"
FEATURE_GAP = "fill it in, remove the row, or set data.missing"
Problem = tuple[int, str, str]  # row, column, and what is wrong
log = logging.getLogger("andiron")


@dataclass(eq=False)
class TableLines:
    """The values of the chosen columns, row by row; `checked` leaves out what is no row."""

    source: str  # the file, in messages; empty for rows from Python
    unit: str  # what a row is called there: a line, counted from 1, or a row, counted from 0
    features: Sequence[str]  # in order
    targets: Sequence[str]
    reading: Reading

    def __post_init__(self) -> None:
        of_numbers = [name for name in self.features if name not in self.reading.categories]
        self.values = {name: ColumnValues(name, self.reading.decimal) for name in of_numbers}
        # of the targets, and of the columns that are text anyway
        self.texts: dict[str, list[str]] = {
            name: [] for name in (*self.features, *self.targets) if name not in of_numbers
        }
        self.lines = array.array("q")  # of each row
        self.bad: dict[int, str] = {}  # by line: why it is no row

    def add(self, line: int, row: Mapping[str, str]) -> None:
        """Appends a row, its values by column."""
        self.lines.append(line)
        for name, column in self.values.items():
            column.add(row[name])
        for name, texts in self.texts.items():
            texts.append(row[name])

    def checked(
        self,
        missing: str | float = "refuse",
        max_bad: int | None = None,
        *,
        has_number_targets: bool = False,
    ) -> columns.Columns:
        """The rows without those that are bad, at most `max_bad`, or dropped for a missing value.

        Rows to predict from have no `max_bad`: all have to be right.
        Raises: DataError listing the bad lines if there are more.
        """
        self.feature_gap = GAP if max_bad is None else FEATURE_GAP
        self.kinds = {name: each.kind(self.reading) for name, each in self.values.items()}
        self._check_date_format(is_learning=max_bad is not None)
        gaps = [*self._gaps()]
        dropped = {row for row, _, _ in gaps} if missing == "drop" else set()
        refused = [
            gap for gap in gaps if missing == "refuse" or (not dropped and gap[1] in self.targets)
        ]
        bad = dict(self.bad)
        for row, name, why in [*self._unusable(has_number_targets), *refused]:
            if row not in dropped:
                bad.setdefault(self.lines[row], f", column {name!r}: {why}")
        record = self._report(bad, max_bad, len(dropped))
        kept = [
            row for row, line in enumerate(self.lines) if row not in dropped and line not in bad
        ]
        if not kept:
            what = "all rows are skipped or dropped" if self.lines else "has a header and no rows"
            raise errors.DataError(f"{self.source}: {what}; there is nothing to learn from")
        return self._columns(kept, record)

    def _check_date_format(self, *, is_learning: bool) -> None:
        wanted = self.reading.date_format
        if is_learning and wanted is not None and "date" not in self.kinds.values():
            raise errors.DataError(
                f"data.date_format={wanted}: no column of {self.source} has such dates; correct "
                "it (31.12.2024 is %d.%m.%Y), or leave it out"
            )

    def _gaps(self) -> Iterator[Problem]:
        """Every missing value."""
        for name, column in self.values.items():
            is_text = self.kinds[name] == "text"
            for row in column.missing_rows:
                text = column.texts[row]
                if not is_text or not text:
                    shown = f" ({text!r})" if text else ""
                    yield row, name, f"has no value{shown}; {self.feature_gap}"
        for name, texts in self.texts.items():
            why = f"has no value; {GAP if name in self.targets else self.feature_gap}"
            yield from ((row, name, why) for row, text in enumerate(texts) if not text)

    def _unusable(self, has_number_targets: bool) -> Iterator[Problem]:
        """Every value that should be a number or a date and is not."""
        for name, column in self.values.items():
            for row, why in column.problems(self.kinds[name], self.reading).items():
                yield row, name, why
        for name in self.targets if has_number_targets else ():
            for row, text in enumerate(self.texts[name]):
                if text and columns.finite(text) is None:
                    yield row, name, columns.complaint(text)

    def _report(self, bad: dict[int, str], most: int | None, dropped: int) -> dict[str, Any]:
        """What is left out, for the record.

        Raises: DataError if it is more than `most` lines.
        """
        places = [f"{self.unit} {line}{why}" for line, why in sorted(bad.items())]
        if len(bad) > (most or 0):
            raise errors.DataError(self._refusal(places, most))
        record: dict[str, Any] = {}
        if bad:
            record["skipped_lines"] = sorted(bad)
            listed = errors.printable(readable.listed(places))
            log.warning("%s: %d lines are skipped:\n%s", self.source, len(bad), listed)
        if dropped:
            record["dropped_rows"] = dropped
            number = len(self.lines)
            log.info("%s: dropped %d of %d rows, for a missing value", self.source, dropped, number)
        return record

    def _refusal(self, places: list[str], most: int | None) -> str:
        if len(places) == 1:
            return self._placed(places[0])
        head = ": ".join(filter(None, [self.source, f"{len(places)} {self.unit}s cannot be used"]))
        allowed = f"; data.max_bad_lines={most} skips fewer" if most else ""
        remedy = "correct them"
        if most is not None:
            gaps = sum(FEATURE_GAP in place for place in places)
            remedy += ", leave out columns (data.exclude)"
            remedy += ", fill missing values (data.missing=median)" if gaps else ""
            remedy += ", read them as text (data.categories)" if gaps < len(places) else ""
            remedy += f", or skip lines (data.max_bad_lines={len(places)})"
        return f"{head}{allowed}:\n{readable.listed(places)}\n{remedy}"

    def _placed(self, place: str) -> str:
        return f"{self.source}, {place}" if self.source else place

    def _columns(self, kept: list[int], record: dict[str, Any]) -> columns.Columns:
        numbers, dates, texts = list[Tensor](), list[str](), dict[str, list[str]]()
        for name in self.features:
            kind = self.kinds.get(name, "text")
            if kind == "text":
                is_listed = name in self.texts
                column: Any = self.texts[name] if is_listed else self.values[name].texts
                texts[name] = [column[row] for row in kept]
                continue
            numbers.append(self.values[name].as_numbers(kind, self.reading))
            dates += [name] if kind == "date" else []
        self._log_kinds([*texts], dates)
        for name in self.targets:
            texts[name] = [self.texts[name][row] for row in kept]
        matrix = torch.stack(numbers, dim=1) if numbers else torch.empty(len(self.lines), 0)
        return columns.Columns(
            source=self.source,
            names=tuple(self.features),
            numbers=matrix if len(kept) == len(matrix) else matrix[kept],
            texts=texts,
            row_name=lambda row: self._placed(f"{self.unit} {self.lines[kept[row]]}"),
            dates=dates,
            record=record,
        )

    def _log_kinds(self, texts: Sequence[str], dates: Sequence[str]) -> None:
        for what, names in (("categories", texts), ("dates", dates)):
            if names:
                log.info("%s: columns read as %s: %s", self.source, what, ", ".join(names))


def read(
    path: Path,
    targets: Sequence[str],
    reading: Reading,
    *,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    delimiter: str | None = None,
) -> TableLines:
    """The columns `targets` and `features`, by default all others but those of `exclude`.

    The first line has the names. Blank lines, and blanks around names and values, are ignored.
    Raises: DataError for a missing column, or a file that cannot be read.
    """
    wanted = [*(features or ()), *targets]
    delimiter = delimiter or delimited_text.delimiter_of(path, wanted)
    rows = delimited_text.rows(path, delimiter)
    line, header = next(rows, (0, []))
    delimited_text.check_header(path, line, header, [*wanted, *exclude, *reading.categories])
    if features is None:
        features = [name for name in header if name not in targets and name not in exclude]
    if not features:
        beside = ", ".join([*targets, *exclude])
        raise errors.DataError(
            f"{path}: has no column beside {beside}; there is nothing to learn from"
        )
    table = TableLines(str(path), "line", features, targets, reading)
    for line, row in rows:
        if len(row) == len(header):
            table.add(line, dict(zip(header, row, strict=True)))
        else:
            table.bad[line] = f": has {len(row)} values where the header has {len(header)} names"
    return table


def of_mappings(
    rows: Iterable[Mapping[str, Any]], features: Sequence[str], reading: Reading
) -> TableLines:
    """The columns `features` of rows from Python: numbers, texts, dates or None."""
    table = TableLines("", "row", features, (), reading)
    for number, row in enumerate(rows):
        absent = [name for name in features if name not in row]
        if absent:
            hint = errors.nearest(absent[0], map(str, row))
            table.bad[number] = f": has no column {absent[0]!r}{hint}"
        else:
            table.add(number, {name: _as_text(row[name]) for name in features})
    return table


def _as_text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # a category 3 that a data frame has as 3.0
    return "" if value is None else str(value).strip()
