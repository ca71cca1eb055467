"""Encodes the columns of a table as inputs of a network, learned from the training rows.

    >>> import polars, torch
    >>> from andiron.data.on_disk.columns import Columns
    >>> frame = polars.DataFrame({"area": [1.0, 3.0, None], "town": ["Bonn", "Rome", "Oslo"]})
    >>> table = Columns("table", frame, {"area": "number", "town": "text"})
    >>> encoding = fitted(table, torch.tensor([0, 1]), missing="median")
    >>> encoding.names
    ['area', 'town=Bonn', 'town=Rome']
    >>> encoding.encoded(table).inputs(torch.arange(3)).tolist()
    [[1.0, 1.0, 0.0], [3.0, 0.0, 1.0], [2.0, 0.0, 0.0]]
"""

import dataclasses
import json
import logging
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
    argument, Categories, Columns, Decimal, Kind, Missing, Reading, Thousands,
)  # fmt: skip
from andiron.data.splitting import standardisation
from andiron.data.splitting.standardisation import in_float64
from andiron.plain import readable
from andiron.plain.plain_values import Named, Plain

QUANTITIES = ("number", "date")
CHUNK_ROWS = 2**14  # fit the cache
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

    def encoded(self, values: Any) -> Shaped[np.ndarray, " rows"]:
        """The numbers of a polars series, without missing ones, or the codes of its texts."""
        if self.kind not in QUANTITIES:
            return self.codes(values).to_numpy()
        numbers = values.to_numpy()
        if self.fill is None or not values.null_count():
            return numbers
        return np.where(values.is_null().to_numpy(), self.fill, in_float64(numbers))

    def inputs(
        self, encoded: Shaped[np.ndarray, " rows"], *, is_exact: bool
    ) -> Shaped[np.ndarray, "rows inputs"]:
        """The inputs of values that are `encoded`; `is_exact`: in float64."""
        if self.kind == "one_hot":
            return encoded[:, None] == np.arange(1, len(self.categories) + 1)
        if self.offset is not None:
            return (in_float64(encoded) - self.offset)[:, None]
        return (in_float64(encoded) if is_exact else encoded)[:, None]

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
    def facts(self) -> Plain:
        """The entries in data.json; empty if the inputs are the numbers of the table."""
        if self == TableEncoding(tuple(_plain(column.column) for column in self.columns)):
            return {}

        def given(fields: list[tuple[str, Any]]) -> Plain:
            return {name: [*value] if name == "columns" else value for name, value in fields
                    if value is not None or name == "date_format"}  # fmt: skip

        facts: Plain = {"encoding": dataclasses.asdict(self, dict_factory=given)}
        if any(column.kind == "codes" for column in self.columns):
            # the number of codes of each input, with the unknown code; 0 for other inputs
            facts["category_counts"] = [
                len(column.categories) + 1 if column.kind == "codes" else 0
                for column in self.columns for _ in column.names
            ]  # fmt: skip
        return facts

    @classmethod
    def of_facts(cls, facts: Named) -> "TableEncoding":
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
        known: dict[str, Kind] = {"number": "number", "date": "date"}
        kinds = {column.column: known.get(column.kind, "text") for column in self.columns}
        return Reading(
            kinds, self.date_format, self.decimal, self.thousands, self.missing_values
        )

    def warn_of_unknown_categories(self, table: Columns) -> None:
        """Logs the categories of `table` that the training rows lacked."""
        for column in self.columns:
            texts = table.column(column.column)
            if column.kind in QUANTITIES:
                continue
            unknown = texts.filter((column.codes(texts) == 0) & texts.is_not_null())
            if len(unknown):
                log.warning(
                    "%s: column %r has unknown categories in %d of %d rows: %s; the training rows "
                    "lacked them, and the network gets no category",
                    table.source or "rows", column.column, len(unknown), len(table),
                    readable.joined([*map(repr, sorted({*unknown}))]),
                )  # fmt: skip

    def encoded(self, table: Columns) -> "EncodedTable":
        """The rows of the table as inputs."""
        values = (column.encoded(table.column(column.column)) for column in self.columns)
        return EncodedTable(self, [*values])


@dataclass(frozen=True)
class EncodedTable:
    """The inputs of a table's rows, made of its columns when they are asked for."""

    encoding: TableEncoding
    columns: Sequence[Any]  # numbers and codes as stored: arrays, or files indexed as arrays

    def inputs(
        self, rows: Int[Tensor, " number"], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "number inputs"]:
        """The inputs of these rows; in float32 there is no copy of them all in float64."""
        inputs = torch.empty(len(rows), len(self.encoding.names), dtype=dtype)
        for chunk, indices in zip(*(torch.split(of, CHUNK_ROWS) for of in (inputs, rows))):
            end = 0
            for column, values in zip(self.encoding.columns, self.columns):
                begin, end = end, end + len(column.names)
                of_rows = column.inputs(values[indices.numpy()], is_exact=dtype == torch.float64)
                with np.errstate(over="ignore"):  # infinite in float32
                    chunk.numpy()[:, begin:end] = of_rows
        return inputs

    def check(self, source: str) -> None:
        """Raises: DataError for a number or date that float32 cannot hold."""
        for column, values in zip(self.encoding.columns, self.columns):
            if column.kind in QUANTITIES:
                inputs = torch.tensor(column.inputs(values[:], is_exact=values.dtype != np.float32))
                standardisation.check(inputs, column.names, source=source)

    def around(self, mean: Sequence[float], std: Sequence[float]) -> "EncodedTable":
        """This table, with the `mean` of inputs that float32 would blur subtracted in float64."""
        columns, end = [], 0
        for column, values in zip(self.encoding.columns, self.columns):
            begin, end = end, end + len(column.names)
            if column.kind in QUANTITIES and not standardisation.is_fine(mean[begin], std[begin]):
                numbers = torch.tensor(in_float64(values[:]))
                offset = standardisation.offset(numbers, mean[begin], std[begin])
                column = dataclasses.replace(column, offset=offset)
            columns.append(column)
        encoding = dataclasses.replace(self.encoding, columns=tuple(columns))
        return dataclasses.replace(self, encoding=encoding)


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
    reading = table.reading
    return TableEncoding(
        tuple(_fitted_column(table, name, rows, missing, categories) for name in table.kinds),
        "refuse" if missing == "drop" else missing,
        reading.date_format,
        reading.decimal,
        reading.thousands,
        reading.missing_values,
    )


def _fitted_column(
    table: Columns,
    name: str,
    rows: Int[Tensor, " number"],
    missing: Missing,
    categories: Categories | Collection[str],
) -> ColumnEncoding:
    """The encoding of one column; see `fitted`."""
    kind = table.kinds[name]
    if kind != "text" and missing not in ("median", "mean"):
        return ColumnEncoding(name, kind, None if isinstance(missing, str) else float(missing))
    values = table.column(name)[rows.numpy()].drop_nulls()
    if not len(values):
        raise errors.DataError(
            f"{table.source}: column {name!r} has no value in the training rows; leave it out "
            "with data.exclude"
        )
    if kind != "text":
        numbers = in_float64(values.to_numpy())
        middle = np.median(numbers) if missing == "median" else torch.tensor(numbers).mean()
        return ColumnEncoding(name, kind, float(middle))
    names, encoded = tuple(distinct(sorted({*values}))), _encoding_of(name, categories)
    if encoded == "one_hot" and len(names) > MOST_ONE_HOT:
        raise errors.DataError(
            f"{table.source}: column {name!r} has {len(names)} different texts in the "
            f"training rows, and one_hot takes at most {MOST_ONE_HOT}; leave it out with "
            f"{argument('exclude', [name])}, or embed columns of text with data.categories=codes"
        )
    return ColumnEncoding(name, encoded, categories=names)


def _encoding_of(column: str, categories: Categories | Collection[str]) -> Categories:
    if isinstance(categories, Mapping):
        return categories.get(column, "one_hot")
    return "codes" if categories == "codes" else "one_hot"


def _plain(column: str) -> ColumnEncoding:
    return ColumnEncoding(column, "number")
