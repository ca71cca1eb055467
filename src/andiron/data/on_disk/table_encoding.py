"""Encodes the columns of a table as inputs of a network, learned from the training rows.

    >>> import torch
    >>> from andiron.data.on_disk.columns import Columns
    >>> numbers = torch.tensor([[1.0], [3.0], [float("nan")]], dtype=torch.float64)
    >>> table = Columns("table", ("area", "town"), numbers, {"town": ["Bonn", "Rome", "Oslo"]})
    >>> encoding = fitted(table, torch.tensor([0, 1]), missing="median")
    >>> encoding.names
    ['area', 'town=Bonn', 'town=Rome']
    >>> encoding.inputs(table).tolist()
    [[1.0, 1.0, 0.0], [3.0, 0.0, 1.0], [2.0, 0.0, 0.0]]
"""

import dataclasses
import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from andiron import errors
from andiron.data.on_disk.columns import (
    PLAIN,
    Columns,
    Decimal,
    Reading,
    Thousands,
    distinct,
    places,
)
from andiron.plain import readable

QUANTITIES = ("number", "date")
# the fields that a `Reading` has too
OF_READING = ("date_format", "decimal", "thousands", "missing_values")
MOST_ONE_HOT = 200  # inputs of one column; more are rarely categories
log = logging.getLogger("andiron")


@dataclass(frozen=True)
class ColumnEncoding:
    """One column: a `number`, a `date`, a `one_hot` for each category, or `codes` of them.

    Codes count from 1. An unknown category or a missing value is all zeros, or code 0.
    `fill` stands for a missing number or date. `offset` is subtracted in float64, from a column
    that varies little around it.
    """

    column: str
    kind: Literal["number", "date", "one_hot", "codes"]
    fill: float | None = None
    categories: tuple[str, ...] = ()
    offset: float | None = None

    @property
    def names(self) -> list[str]:
        """The names of its inputs."""
        if self.kind == "one_hot":
            return [f"{self.column}={category}" for category in self.categories]
        return [self.column]

    def inputs(self, table: Columns) -> Float[Tensor, "rows inputs"]:
        """Its inputs in all rows."""
        if self.kind in QUANTITIES:
            values = table.column(self.column)
            fill = values if self.fill is None else self.fill
            filled = torch.where(values.isnan(), fill, values)[:, None]
            return filled if self.offset is None else filled - self.offset
        texts = [*table.texts[self.column]]
        known = self.codes({*texts})
        codes = torch.tensor([known[text] for text in texts])[:, None]
        if self.kind == "one_hot":
            codes = codes == torch.arange(1, len(self.categories) + 1)
        return codes.double()

    def codes(self, texts: Iterable[str]) -> dict[str, int]:
        """The code of each text; 0 if it is unknown or missing."""
        place_of = places(self.categories)
        return {text: place_of(text) + 1 if text else 0 for text in texts}


@dataclass(frozen=True)
class TableEncoding:
    """The encoding of each column, and how the values of a file are read."""

    columns: tuple[ColumnEncoding, ...]
    missing: Literal["refuse", "median", "mean"] | float = "refuse"
    date_format: str | None = None
    decimal: Decimal = "."
    thousands: Thousands | None = None
    missing_values: Sequence[str | float] | None = None

    @property
    def names(self) -> list[str]:
        """The names of all inputs."""
        return [name for column in self.columns for name in column.names]

    @property
    def is_quantity(self) -> list[bool]:
        """Whether each input is a number, to be standardised, rather than a category."""
        return [column.kind in QUANTITIES for column in self.columns for _ in column.names]

    @property
    def is_plain(self) -> bool:
        """Whether the inputs are the numbers of the table."""
        return self == TableEncoding(tuple(_plain(each.column) for each in self.columns))

    @property
    def facts(self) -> dict[str, Any]:
        """Its entries in data.json, for networks and for prediction; empty if plain."""
        if self.is_plain:
            return {}

        def given(fields: list[tuple[str, Any]]) -> dict[str, Any]:
            return {name: [*value] if name == "columns" else value for name, value in fields
                    if value is not None or name == "date_format"}  # fmt: skip

        facts: dict[str, Any] = {"encoding": dataclasses.asdict(self, dict_factory=given)}
        if any(column.kind == "codes" for column in self.columns):
            # the number of codes of each input, with the unknown code; 0 for a number
            facts["category_counts"] = [
                len(each.categories) + 1 if each.kind == "codes" else 0 for each in self.columns
            ]
        return facts

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> "TableEncoding":
        """The encoding in data.json.

        Raises: DataError for values that `facts` never has.
        """
        if "encoding" not in facts:
            return cls(tuple(map(_plain, facts["columns"])))
        try:
            return TypeAdapter(cls).validate_json(json.dumps(facts["encoding"]), strict=True)
        except ValidationError as error:
            why = errors.one_line(error)[:200]
            raise errors.DataError(
                f"encoding: is malformed ({why}); restore data.json from a copy"
            ) from error

    @property
    def reading(self) -> Reading:
        """The options to read other rows: each column keeps its kind."""
        kinds: dict[str, Any] = {
            each.column: each.kind if each.kind in QUANTITIES else "text" for each in self.columns
        }
        return Reading(kinds=kinds, **{name: getattr(self, name) for name in OF_READING})

    def warn_of_unknown_categories(self, table: Columns) -> None:
        """Logs the categories of `table` that the training rows lacked, with their numbers."""
        for column in self.columns:
            unknown = Counter(filter(None, table.texts.get(column.column, ())))
            for text, code in column.codes([*unknown]).items():
                if code:
                    del unknown[text]
            if unknown:
                names = [f"{name!r} ({number})" for name, number in unknown.most_common()]
                log.warning(
                    "%s: column %r has unknown categories in %d of %d rows: %s; the training rows "
                    "lacked them, and the network gets no category",
                    table.source or "rows", column.column, unknown.total(), len(table.numbers),
                    readable.joined(names),
                )  # fmt: skip

    def around(self, offsets: Mapping[str, float | None]) -> "TableEncoding":
        """The encoding with these offsets, by column."""
        columns = (
            dataclasses.replace(each, offset=offsets.get(each.column)) for each in self.columns
        )
        return dataclasses.replace(self, columns=tuple(columns))

    def inputs(self, table: Columns) -> Float[Tensor, "rows inputs"]:
        """The inputs of all rows, in float64."""
        if self.is_plain:
            return table.numbers
        return torch.cat([column.inputs(table) for column in self.columns], dim=1)


def fitted(
    table: Columns,
    rows: Int[Tensor, " number"],
    *,
    missing: str | float = "refuse",
    reading: Reading = PLAIN,
) -> TableEncoding:
    """The encoding of the table's columns, learned from `rows`.

    Raises: DataError for a column without a value in `rows`, or with too many categories.
    """
    columns = [_fitted_column(table, name, rows, missing, reading.text) for name in table.names]
    learned: Any = "refuse" if missing == "drop" else missing
    same = {name: getattr(reading, name) for name in OF_READING}
    return TableEncoding(tuple(columns), learned, **same)


def _fitted_column(
    table: Columns, name: str, rows: Int[Tensor, " number"], missing: str | float, text: Any
) -> ColumnEncoding:
    if name not in table.texts:
        fill = _fill(table, name, rows, missing)
        return ColumnEncoding(name, "date" if name in table.dates else "number", fill)
    values = [*table.texts[name]]
    categories = distinct(sorted({values[row] for row in rows.tolist()} - {""}))
    if not categories:
        raise errors.DataError(
            f"{table.source}: column {name!r} has no value in the training rows; leave it out with "
            "data.exclude"
        )
    if text == "one_hot" and len(categories) > MOST_ONE_HOT:
        raise errors.DataError(
            f"{table.source}: column {name!r} has {len(categories)} different texts in the "
            f"training rows, and one_hot takes at most {MOST_ONE_HOT}; leave it out with "
            f"data.exclude=[{name}], or embed the columns of text with data.text=codes"
        )
    return ColumnEncoding(name, text, categories=tuple(categories))


def _plain(column: str) -> ColumnEncoding:
    return ColumnEncoding(column, "number")


def _fill(
    table: Columns, name: str, rows: Int[Tensor, " number"], missing: str | float
) -> float | None:
    if not isinstance(missing, str):
        return float(missing)
    if missing not in ("median", "mean"):
        return None
    values = table.column(name)[rows]
    values = values[~values.isnan()]
    if not len(values):
        raise errors.DataError(
            f"{table.source}: column {name!r} has no value in the training rows, so that "
            f"data.missing={missing} has none to learn from; leave it out with data.exclude"
        )
    return float(np.median(values.numpy()) if missing == "median" else values.mean())
