"""The lines of a delimited text file as columns, and the invalid lines."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars
import torch
from jaxtyping import Float, Int

from andiron import errors
from andiron.data.on_disk import column_values, columns
from andiron.data.on_disk.columns import Reading
from andiron.plain import readable

GAP = "fill it in, or remove the row"
FEATURE_GAP = "fill it in, remove the row, or set data.missing"
MOST_ALIKE = 5  # lines with the same fault that are listed one by one
log = logging.getLogger("andiron")


class Fault(NamedTuple):
    """Why a line cannot be used, after its number; `cause` is the same for other values."""

    text: str
    cause: str


Problems = dict[int, Fault]  # by row


@dataclass(eq=False)
class TableLines:
    """The values of the chosen columns, row by row; `checked` removes invalid rows."""

    source: str  # the file, in messages; empty for rows from Python
    unit: str  # a line, counted from 1, or a row, counted from 0, in messages
    features: Sequence[str]  # in order
    targets: Sequence[str]
    reading: Reading
    frame: polars.DataFrame  # texts, "" where one is missing; the columns beside `numeric`
    lines: Sequence[int]  # of each row
    bad: Mapping[int, str]  # the fault of an invalid line, by line
    kept: Sequence[str] = ()  # further columns, of any values
    numeric: Sequence[str] = ()  # the features whose values are all finite, in `numbers`
    numbers: Float[np.ndarray, "rows columns"] = field(default_factory=lambda: np.empty((0, 0)))

    def checked(
        self,
        missing: str | float = "refuse",
        max_bad: int | None = None,
        *,
        has_number_targets: bool = False,
    ) -> columns.Columns:
        """The rows without bad ones, at most `max_bad`, and those dropped for a missing value.

        Rows to predict from have no `max_bad`: all must be valid.
        Raises: DataError listing the bad lines if there are more.
        """
        self.values = {
            name: column_values.typed(name, self.frame[name], self.reading)
            for name in self.features if name not in self.numeric
        }  # fmt: skip
        if max_bad is not None:
            self._check_date_format()
        decimal = self.reading.decimal if has_number_targets else None
        self.values |= {
            name: column_values.untyped(self.frame[name], decimal)
            for name in self.targets
        }
        dropped, wrong = self._problems(missing, GAP if max_bad is None else FEATURE_GAP)
        bad = {line: Fault(why, why) for line, why in self.bad.items()}
        bad |= {self.lines[row]: fault for row, fault in wrong.items()}
        record = self._report(bad, max_bad, len(dropped))
        kept = np.delete(np.arange(len(self.lines)), [*dropped, *wrong])
        if not len(kept):
            what = "all rows are skipped or dropped" if self.lines else "has a header and no rows"
            raise errors.DataError(f"{self.source}: {what}; there is nothing to learn from")
        return self._columns(kept, record)

    def _problems(self, missing: str | float, remedy: str) -> tuple[Problems, Problems]:
        """The rows to drop, and the wrong rows with the first reason of each."""
        gaps, wrong = Problems(), Problems()
        for name, column in self.values.items():
            is_target = name in self.targets
            where = f", column {name!r}:"
            for row, why in column.wrong_rows:
                cause = why.replace(repr(column.values[row]), "")
                wrong.setdefault(row, Fault(f"{where} {why}", f"{where} {cause}"))
            for row in column.missing_rows if missing in ("refuse", "drop") or is_target else ():
                shown = f" ({column.values[row]!r})" if column.values[row] else ""
                why = GAP if is_target else remedy
                gaps.setdefault(row, Fault(f"{where} has no value{shown}; {why}", f"{where} {why}"))
        if missing != "drop":
            return {}, gaps | wrong
        return gaps, {row: fault for row, fault in wrong.items() if row not in gaps}

    def _check_date_format(self) -> None:
        wanted = self.reading.date_format
        if wanted is not None and all(each.kind != "date" for each in self.values.values()):
            raise errors.DataError(
                f"data.date_format={wanted}: no column of {self.source} has such dates; correct "
                "it (31.12.2024 is %d.%m.%Y), or leave it out"
            )

    def _report(self, bad: Problems, most: int | None, dropped: int) -> dict[str, Any]:
        """The skipped rows, for the record.

        Raises: DataError if more than `most` lines are bad.
        """
        if len(bad) > (most or 0):
            raise errors.DataError(self._refusal(bad, most))
        record: dict[str, Any] = {}
        if bad:
            record["skipped_lines"] = sorted(bad)
            listed = errors.printable(readable.listed(self._places(bad)))
            log.warning("%s: %d lines are skipped:\n%s", self.source, len(bad), listed)
        if dropped:
            record["dropped_rows"] = dropped
            log.info(
                "%s: dropped %d of %d rows, for a missing value",
                self.source, dropped, len(self.lines),
            )  # fmt: skip
        return record

    def _places(self, bad: Problems) -> list[str]:
        """The bad lines in order, each with its fault; a frequent cause only once."""
        alike: dict[str, list[int]] = {}
        for line in sorted(bad):
            alike.setdefault(bad[line].cause, []).append(line)
        places = {}
        for first, *more in alike.values():
            same = ""
            if len(more) >= MOST_ALIKE:
                same = f"; the same in {len(more)} more {self.unit}s: {readable.joined(more)}"
            for line in (first, *(() if same else more)):
                places[line] = f"{self.unit} {line}{bad[line].text}{same}"
        return [places[line] for line in sorted(places)]

    def _refusal(self, bad: Problems, most: int | None) -> str:
        places = self._places(bad)
        if len(bad) == 1:
            return _placed(self.source, places[0])
        is_all = len(bad) == len(self.lines) + len(self.bad)
        found = f"{'all ' if is_all else ''}{len(bad)} {self.unit}s cannot be used"
        head = ": ".join(filter(None, [self.source, found]))
        allowed = f"; data.max_bad_lines={most} skips fewer" if most else ""
        remedies = ["correct them"]
        if most is not None:
            gaps = sum(FEATURE_GAP in fault.text for fault in bad.values())
            remedies += ["leave out columns (data.exclude)"]
            remedies += ["fill missing values (data.missing=median)"] * (gaps > 0)
            remedies += ["read them as text (data.categories)"] * (gaps < len(bad))
            remedies += [f"skip lines (data.max_bad_lines={len(bad)})"] * (not is_all)
            remedies[-1] = f"or {remedies[-1]}"
        return f"{head}{allowed}:\n{readable.listed(places)}\n{', '.join(remedies)}"

    def _columns(self, kept: Int[np.ndarray, " rows"], record: dict[str, Any]) -> columns.Columns:
        texts, dates = (
            [
                name for name, column in self.values.items()
                if column.kind == wanted and name not in self.targets
            ]
            for wanted in ("text", "date")
        )  # fmt: skip
        self._log_kinds(texts, dates)
        source, unit, lines = self.source, self.unit, self.lines  # without the values
        rows = slice(None) if len(kept) == len(lines) else kept
        return columns.Columns(
            source=self.source,
            names=tuple(self.features),
            numbers=torch.from_numpy(self._matrix(texts)[rows]),
            texts={name: self.frame[name][rows] for name in (*texts, *self.targets)},
            decimal=self.reading.decimal,
            kept={name: self.frame[name][rows] for name in self.kept},
            row_name=lambda row: _placed(source, f"{unit} {lines[kept[row]]}"),
            dates=dates,
            record=record,
        )

    def _matrix(self, texts: Sequence[str]) -> Float[np.ndarray, "rows columns"]:
        """The numbers and dates, in the order of the features; NaN where one is missing."""
        names = [name for name in self.features if name not in texts]
        if names and names == [*self.numeric]:
            return self.numbers
        matrix = np.empty((len(self.lines), len(names)))
        for column, name in zip(matrix.T, names):
            if name in self.values:
                column[:] = self.values[name].numbers  # null becomes NaN
            else:
                column[:] = self.numbers[:, self.numeric.index(name)]
        return matrix

    def _log_kinds(self, texts: Sequence[str], dates: Sequence[str]) -> None:
        for what, names in (("categories", texts), ("dates", dates)):
            if names:
                log.info("%s: columns read as %s: %s", self.source, what, ", ".join(names))


def _placed(source: str, place: str) -> str:
    return f"{source}, {place}" if source else place
