"""A table as named columns, independent of the file format, and the options for reading it.

A reader of another file format makes `Columns` and passes them to `table_splits.of_columns`.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jaxtyping import Float
from torch import Tensor

Kind = Literal["number", "date", "text"]


@dataclass(frozen=True)
class Reading:
    """Options for reading the values of a file."""

    text: Literal["one_hot", "codes", "refuse"] = "one_hot"
    kinds: Mapping[str, Kind] = field(default_factory=dict)  # of columns; others are inferred
    date_format: str | None = None  # of strptime; None is ISO 8601
    decimal: Literal[".", ","] = "."


PLAIN = Reading()


@dataclass(frozen=True)
class Columns:
    """Chosen columns of a table: `numbers` as float64, `texts` unconverted."""

    source: str  # the file, in messages
    names: tuple[str, ...]  # of the columns to predict from; numbers, but for those in `texts`
    numbers: Float[Tensor, "rows columns"]  # NaN where a value is missing
    texts: Mapping[str, Collection[str]] = field(default_factory=dict)
    decimal: Literal[".", ","] = "."  # the decimal separator of `texts`
    kept: Mapping[str, Collection[str]] = field(default_factory=dict)  # beside the predictions
    # of a row counted from 0, in messages: "table.csv, line 12"
    row_name: Callable[[int], str] = "row {}".format
    dates: Collection[str] = ()  # which of the numbers are days since 1970-01-01
    record: Mapping[str, Any] = field(default_factory=dict)  # skipped rows, for data.json

    def column(self, name: str) -> Float[Tensor, " rows"]:
        """One column of numbers."""
        return self.numbers[:, [each for each in self.names if each not in self.texts].index(name)]
