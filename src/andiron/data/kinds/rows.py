"""Rows of a table, with the columns used in training, encoded as then."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from andiron import errors
from andiron.data.kinds.new_samples import Kind, NewSamples, of_tensor
from andiron.data.on_disk import csv_file
from andiron.data.on_disk.table_encoding import TableEncoding
from andiron.plain.plain_values import Named, Plain

# methods of lazy frames, polars' frames, Arrow's tables, and rows of pandas
TO_PYTHON = ("collect", "to_dicts", "to_pylist", "to_dict", "_asdict")


class Rows(Kind):
    """CSV files (their content as bytes), data frames, or mappings by column."""

    @property
    def expected(self) -> str:
        columns = ", ".join(map(str, self.data.facts["columns"]))
        number = self.data.facts["input_shape"][0]
        return f"a CSV file, or mappings with the columns {columns}, or arrays [number, {number}]"

    @property
    def card(self) -> str:
        has_offset = any(column.offset for column in self._encoding.columns)
        return "minus the `offset` of their column in the facts below" if has_offset else ""

    @property
    def _encoding(self) -> TableEncoding:
        return TableEncoding.of_facts(self.data.facts)

    def samples(self, inputs: object, keep: Sequence[str] = ()) -> NewSamples:
        return super().samples(_rows(inputs), keep)

    def own_samples(self, inputs: Sequence[object], keep: Sequence[str]) -> NewSamples | None:
        if not isinstance(inputs[0], str | Path | bytes | Mapping):
            return None
        sources = [Path(source) if isinstance(source, str) else source
                   for source in inputs if not isinstance(source, Mapping)]  # fmt: skip
        mappings = [row for row in inputs if isinstance(row, Mapping)]
        sources += [mappings] if mappings else []
        encoding = self._encoding
        options: Plain = {
            "features": [feature.column for feature in encoding.columns], "kept": keep,
            "reading": encoding.reading.laid_out(_options_of_table(self.data.options)),
            "missing": encoding.missing, "is_partial": True,
        }  # fmt: skip
        tables = [csv_file.read(source, **options) for source in sources]
        for table in tables:
            encoding.warn_of_unknown_categories(table)
        encoded = torch.cat(
            [encoding.encoded(table).inputs(torch.arange(len(table))) for table in tables]
        )
        names = [table.row_name(row) for table in tables for row in range(len(table))]
        return replace(
            of_tensor(encoded, self.data.batcher, names),
            kept={name: [text for table in tables for text in table.kept[name]] for name in keep},
            refused=[table.refused for table in tables if table.refused],
            unreadable={
                int(row): f"{names[row]}: input {encoding.names[column]!r} is too large for "
                "float32; correct it, or remove the row"
                for row, column in (~encoded.isfinite()).nonzero().flip(0).tolist()
            },
        )

    def read_stdin(self) -> list[Any]:
        """The content of a CSV file."""
        return [sys.stdin.buffer.read()]


def _options_of_table(options: Named) -> Named:
    """The options of the table itself, which may be inside another data set."""
    if "decimal" in options:
        return options
    inner = (_options_of_table(value) for value in options.values() if isinstance(value, Mapping))
    return next(filter(None, inner), {})


def _rows(inputs: object) -> Any:
    """Frames and tables, and their rows, as mappings by column; other inputs as they are.

    Raises: DataError for a data frame with two columns of one name.
    """
    if isinstance(inputs, list):
        rows = [[given] if isinstance(given, list) else _rows(given) for given in inputs]
        return [row for inner in rows for row in (inner if isinstance(inner, list) else [inner])]
    if hasattr(inputs, "itertuples"):  # of pandas
        frame: Any = inputs
        if not frame.columns.is_unique:
            raise errors.DataError("the data frame has two columns of one name; rename one")
        names = [*map(str, frame.columns)]
        return [dict(zip(names, row)) for row in frame.itertuples(index=False)]
    for name in TO_PYTHON:
        if hasattr(inputs, name):
            return _rows(getattr(inputs, name)())
    return inputs
