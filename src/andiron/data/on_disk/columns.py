"""A table as a polars frame with checked columns, and the options for reading it.

A reader of another file format makes `Columns` and passes them to `table_splits.of_columns`.
"""

import json
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Int

from andiron.data.on_disk.category_names import MISSING, parsed
from andiron.plain import memory
from andiron.plain.plain_values import Named

if TYPE_CHECKING:  # importing polars takes 0.2 s
    import polars

Kind = Literal["number", "date", "text"]
Kinds = Mapping[str, Kind]  # of columns
Decimal = Literal[".", ","]
Thousands = Literal[".", ",", " ", "'"]
Names = Sequence[str]
Categories = Literal["one_hot", "codes"]
Missing = Literal["refuse", "drop", "median", "mean"] | float  # of features


@dataclass(frozen=True)
class Reading:
    """How the values of a table are written, and what they are."""

    kinds: Kinds = field(default_factory=dict)  # of columns; others are inferred
    date_format: str | None = None  # of strptime; None is ISO 8601
    decimal: Decimal = "."
    thousands: Thousands | None = None  # the separator; " " is any space
    missing_values: Sequence[str | float] | None = None  # beside the usual; empty: none but ""
    classes: Collection[str] = ()  # known names, which are never missing
    encoding: str | None = None  # None is UTF-8
    header: Names | None = None  # the names of a file without them

    def laid_out(self, options: Named) -> "Reading":
        """This reading of a file with the encoding and header in the options of a data set."""
        return replace(self, encoding=options.get("encoding"), header=options.get("header"))

    def missing_texts(self, *, is_text: bool = False) -> set[str]:
        """The texts that stand for a missing value; in columns of text, only the given ones."""
        given = self.missing_values
        usual = MISSING if not is_text and (given is None or given) else ()
        return {"", *usual, *map(str, given or ())}

    @property
    def missing_numbers(self) -> list[float]:
        """The numbers that stand for a missing value, such as -999."""
        numbers = (parsed(str(value)) for value in self.missing_values or ())
        return [number for number in numbers if number is not None]


PLAIN = Reading()


def argument(option: str, names: Iterable[str]) -> str:
    """The argument to type in a shell for names in an option of the data set."""
    return shlex.quote(f"data.{option}={json.dumps([*names], ensure_ascii=False)}")


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """Where the columns of a table are while it is read: by default in memory.

    `source` joins the pieces of a text, in memory or in a file. `staged` brings its columns into a
    form of which one is read without the others; in memory the text is read for each group of them.
    """

    columns: "MutableMapping[str, polars.Series]" = field(default_factory=dict)  # checked ones
    # the most bytes of all columns
    limit: float = field(default_factory=lambda: memory.of_machine())
    source: Callable[[Iterable[bytes]], bytes | Path] = b"".join
    staged: "Callable[[polars.LazyFrame], polars.LazyFrame]" = lambda texts: texts


@dataclass(frozen=True, kw_only=True)
class Request:
    """The columns to read of a table, and how."""

    features: Names | None  # None: all columns but those in the other fields
    targets: Names = ()
    exclude: Names = ()
    weight: str | None = None
    kept: Names = ()  # further columns, as text
    reading: Reading = PLAIN
    missing: Missing = "refuse"
    max_bad_lines: int = 0
    has_number_targets: bool = False
    is_partial: bool = False  # invalid rows are left out, and named in `Columns.refused`
    workspace: Workspace = field(default_factory=Workspace)

    @property
    def required(self) -> list[str]:
        """The columns in which a missing value cannot be filled in: targets and weight."""
        return [*self.targets, *([] if self.weight is None else [self.weight])]

    def columns(self, features: Names) -> list[str]:
        """The names of all columns to read, each once."""
        return [*dict.fromkeys((*features, *self.required, *self.kept))]

    def kind_of(self, column: str) -> Kind | Literal["class"] | None:
        """The kind of a column; None to infer it."""
        if column == self.weight or column in self.targets and self.has_number_targets:
            return "number"
        return "class" if column in self.targets else self.reading.kinds.get(column)


@dataclass(frozen=True)
class Columns:
    """The valid rows of a table: numbers, days as float64, and texts; null if missing."""

    source: str  # the file, in messages
    frame: "polars.DataFrame | Mapping[str, polars.Series]"  # the features, and the targets
    kinds: Kinds  # of the features, in order
    reading: Reading = PLAIN
    kept: Mapping[str, Collection[str]] = field(default_factory=dict)  # further columns
    unit: str = "row"  # or line
    lines: Int[np.ndarray, " rows"] | None = None  # of each row in the file, in messages
    record: Named = field(default_factory=dict)  # rows left out, for data.json
    refused: str = ""  # the problems of rows that are left out of a prediction

    def __len__(self) -> int:
        return len(self.frame if self.lines is None else self.lines)

    def column(self, name: str) -> "polars.Series":
        """The values of a column, without its name: polars takes ^a$ for a pattern."""
        return self.frame[name].alias("")

    def row_name(self, row: int) -> str:
        """A row in messages: table.csv, line 12."""
        place = f"{self.unit} {row if self.lines is None else self.lines[row]}"
        return f"{self.source}, {place}" if self.source else place

    def names_of(self, rows: Int[np.ndarray, " some"]) -> Callable[[int], str]:
        """The names of these rows, such as line 12; holds nothing else of the table."""
        return partial(_name_of, self.unit, rows if self.lines is None else self.lines[rows])


def _name_of(unit: str, lines: np.ndarray, index: int) -> str:
    return f"{unit} {lines[index]}"
