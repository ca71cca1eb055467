"""Tables as polars data frames: of parquet files, and of data frames and mappings from Python.

A cell has one text wherever it comes from: `column_values.text_of` of values from Python, and
`column_values.texts` of polars columns.
"""

import io
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars
from jaxtyping import Float

from andiron import errors
from andiron.data.on_disk.column_values import text_of

PARQUET = (".parquet", ".pq")
PARQUET_START = b"PAR1"
NO_CELL = (polars.List, polars.Array, polars.Struct, polars.Binary, polars.Duration, polars.Object)
# of the names, and those of an index: the features, and further columns
Choose = Callable[[Sequence[str], Collection[str]], tuple[Sequence[str], Sequence[str]]]


class Table(NamedTuple):
    """The chosen columns of a table; columns of finite numbers may be apart."""

    unit: str  # a line, counted from 1, or a row, counted from 0, in messages
    features: Sequence[str]
    frame: polars.DataFrame  # the columns beside `numeric`
    lines: Sequence[int]  # of each row
    bad: Mapping[int, str]  # the fault of an invalid line, by line
    numeric: Sequence[str] = ()  # the features whose values are all finite, in `numbers`
    numbers: Float[np.ndarray, "rows columns"] = np.empty((0, 0))


def is_parquet(path: Path, file: Any) -> bool:
    """Whether the open file is a parquet file, by its first bytes or its name."""
    start = file.read(len(PARQUET_START))
    file.seek(0)
    return start == PARQUET_START or path.suffix.lower() in PARQUET


def of_parquet(path: Path, file: Any, choose: Choose) -> Table:
    """The chosen columns of a parquet file; only they are read.

    Raises: DataError naming a column whose values are no cells of a table.
    """
    content = file.read()
    kinds = polars.read_parquet_schema(io.BytesIO(content))
    of_pandas = json.loads(polars.read_parquet_metadata(io.BytesIO(content)).get("pandas", "{}"))
    # an index that is a range has no column
    index = [name for name in of_pandas.get("index_columns", ()) if isinstance(name, str)]
    features, others = choose([*kinds], index)
    names = [*dict.fromkeys([*features, *others])]
    _check_kinds(str(path), {name: kinds[name] for name in names})
    frame = polars.read_parquet(io.BytesIO(content), columns=names).select(names)
    return _of_frame(frame, features)


def of_frame(frame: Any, choose: Choose) -> Table:
    """The chosen columns of a data frame, of polars or of pandas, and of its named index."""
    if hasattr(frame, "index") and any(frame.index.names):
        levels = [name for name in frame.index.names if name not in (None, *frame.columns)]
        frame = frame.reset_index(levels)
    named = {str(name): name for name in frame.columns}
    features, others = choose([*named], ())
    columns = {name: _series(frame[named[name]]) for name in dict.fromkeys([*features, *others])}
    _check_kinds("the data frame", {name: column.dtype for name, column in columns.items()})
    return _of_frame(polars.DataFrame(columns), features)


def of_mappings(
    rows: Iterable[Mapping[str, Any]], features: Sequence[str], others: Sequence[str]
) -> Table:
    """The columns of rows from Python: numbers, texts, dates or None."""
    schema, bad, good = dict.fromkeys([*features, *others], polars.String), {}, {}
    for number, row in enumerate(rows):
        absent = [name for name in schema if name not in row]
        if absent:
            hint = errors.nearest(absent[0], map(str, row))
            bad[number] = f": has no column {absent[0]!r}{hint}"
        else:
            good[number] = [text_of(row[name]) for name in schema]
    frame = polars.DataFrame([*good.values()], schema=schema, orient="row")
    return Table("row", features, frame, [*good], bad)


def _of_frame(frame: polars.DataFrame, features: Sequence[str]) -> Table:
    return Table("row", features, frame, range(len(frame)), {})


def _series(column: Any) -> polars.Series:
    """A column of a data frame; of pandas, which need not have Arrow."""
    if isinstance(column, polars.Series):
        return column
    if getattr(column.dtype, "kind", "O") in "biuf" and isinstance(column.dtype, np.dtype):
        return polars.Series(column.to_numpy())
    return polars.Series([*map(text_of, column)], dtype=polars.String)


def _check_kinds(source: str, kinds: Mapping[str, Any]) -> None:
    wrong = {name: kind for name, kind in kinds.items() if isinstance(kind, NO_CELL)}
    if wrong:
        listed = ", ".join(f"{name!r} ({kind})" for name, kind in wrong.items())
        raise errors.DataError(
            f"{source}: cannot use the columns {listed}: a value is a number, a text, a boolean or "
            f"a date; leave them out with data.exclude=[{','.join(wrong)}], or convert them"
        )
