"""Encodes the columns of a table as inputs of a network, learned from the training rows.

    >>> import polars, torch
    >>> from andiron.data.on_disk.columns import Columns
    >>> frame = polars.DataFrame({"area": [1.0, 3.0, None], "town": ["Bonn", "Rome", "Oslo"]})
    >>> table = Columns("table", frame, {"area": "number", "town": "text"})
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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from pydantic import ConfigDict, TypeAdapter, ValidationError
from torch import Tensor

from andiron import errors
from andiron.data.on_disk.category_names import distinct, places
from andiron.data.on_disk.columns import (
    Categories, Columns, Decimal, Kind, Missing, Reading, Thousands,
)  # fmt: skip
from andiron.plain import readable

QUANTITIES = ("number", "date")
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

    def inputs(self, values: Any) -> Shaped[np.ndarray, "rows inputs"]:
        """The inputs of these values, a polars series."""
        if self.kind in QUANTITIES:
            if self.fill is not None:
                values = values.fill_null(self.fill)
            return (values.to_numpy() - (self.offset or 0.0))[:, None]
        codes = self.codes(values).to_numpy()[:, None]
        return codes if self.kind == "codes" else codes == np.arange(1, len(self.categories) + 1)

    def codes(self, texts: Any) -> Any:
        """The code of each text of a polars series; 0 if it is unknown or null."""
        place_of = places(self.categories)
        known = {text: place_of(text) + 1 for text in texts.drop_nulls().unique()}
        return texts.replace_strict({None: 0, **known})


@dataclass(frozen=True)
class TableEncoding:
    """The encoding of each column, and how the values of a file are read."""

    __pydantic_config__ = ConfigDict(extra="forbid")

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
    def facts(self) -> dict[str, Any]:
        """The entries in data.json; empty if the inputs are the numbers of the table."""
        if self == TableEncoding(tuple(_plain(column.column) for column in self.columns)):
            return {}

        def given(fields: list[tuple[str, Any]]) -> dict[str, Any]:
            return {name: [*value] if name == "columns" else value for name, value in fields
                    if value is not None or name == "date_format"}  # fmt: skip

        facts: dict[str, Any] = {"encoding": dataclasses.asdict(self, dict_factory=given)}
        if any(column.kind == "codes" for column in self.columns):
            # the number of codes of each input, with the unknown code; 0 for other inputs
            facts["category_counts"] = [
                len(column.categories) + 1 if column.kind == "codes" else 0
                for column in self.columns for _ in column.names
            ]  # fmt: skip
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
        kinds: dict[str, Kind] = {
            column.column: "number" if column.kind == "number"
            else "date" if column.kind == "date" else "text"
            for column in self.columns
        }  # fmt: skip
        return Reading(
            kinds, self.date_format, self.decimal, self.thousands, self.missing_values
        )

    def warn_of_unknown_categories(self, table: Columns) -> None:
        """Logs the categories of `table` that the training rows lacked, with their numbers."""
        for column in self.columns:
            texts = table.column(column.column)
            if column.kind in QUANTITIES:
                continue
            unknown = texts.filter((column.codes(texts) == 0) & texts.is_not_null())
            if len(unknown):
                counts = Counter(unknown).most_common()
                log.warning(
                    "%s: column %r has unknown categories in %d of %d rows: %s; the training rows "
                    "lacked them, and the network gets no category",
                    table.source or "rows", column.column, len(unknown), len(table),
                    readable.joined([f"{name!r} ({number})" for name, number in counts]),
                )  # fmt: skip

    def around(self, offsets: Mapping[str, float | None]) -> "TableEncoding":
        """This encoding, subtracting `offsets[column]` from the column before float32."""
        columns = (
            dataclasses.replace(column, offset=offsets.get(column.column))
            for column in self.columns
        )
        return dataclasses.replace(self, columns=tuple(columns))

    def inputs(self, table: Columns) -> Float[Tensor, "rows inputs"]:
        """The inputs of all rows, in float64."""
        inputs, end = np.empty((len(table), len(self.names))), 0
        for column in self.columns:
            begin, end = end, end + len(column.names)
            inputs[:, begin:end] = column.inputs(table.column(column.column))
        return torch.from_numpy(inputs)


def fitted(
    table: Columns,
    rows: Int[Tensor, " number"],
    *,
    missing: Missing = "refuse",
    categories: Categories | Collection[str] = (),
) -> TableEncoding:
    """The encoding of the table's columns, learned from `rows`.

    Categories are one_hot; `categories` may be codes, for all columns of text, or map columns to
    one of the two.

    Raises: DataError for a column without a value in `rows`, or with too many categories.
    """
    columns = []
    for name, kind in table.kinds.items():
        values = table.column(name)[rows.numpy()].drop_nulls()
        if not len(values) and (kind == "text" or missing in ("median", "mean")):
            raise errors.DataError(
                f"{table.source}: column {name!r} has no value in the training rows; leave it out "
                "with data.exclude"
            )
        if kind != "text":
            columns.append(ColumnEncoding(name, kind, _fill(values, missing)))
            continue
        names, encoded = tuple(distinct(sorted({*values}))), _encoding_of(name, categories)
        if encoded == "one_hot" and len(names) > MOST_ONE_HOT:
            raise errors.DataError(
                f"{table.source}: column {name!r} has {len(names)} different texts in the "
                f"training rows, and one_hot takes at most {MOST_ONE_HOT}; leave it out with "
                f"data.exclude=[{name}], or embed the columns of text with data.categories=codes"
            )
        columns.append(ColumnEncoding(name, encoded, categories=names))
    reading, learned = table.reading, "refuse" if missing == "drop" else missing
    return TableEncoding(
        tuple(columns),
        learned,
        reading.date_format,
        reading.decimal,
        reading.thousands,
        reading.missing_values,
    )


def _encoding_of(column: str, categories: Categories | Collection[str]) -> Categories:
    if isinstance(categories, Mapping):
        return categories.get(column, "one_hot")
    return "codes" if categories == "codes" else "one_hot"


def _plain(column: str) -> ColumnEncoding:
    return ColumnEncoding(column, "number")


def _fill(values: Any, missing: Missing) -> float | None:
    if not isinstance(missing, str):
        return float(missing)
    numbers = torch.tensor(values.to_numpy())
    if missing == "median":
        return float(np.median(numbers.numpy()))
    return float(numbers.mean()) if missing == "mean" else None
