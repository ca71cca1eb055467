"""Rows from Python, such as dicts, as the lines of a table."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars

from andiron import errors
from andiron.data.on_disk.columns import Reading
from andiron.data.on_disk.table_lines import TableLines


def of_mappings(
    rows: Iterable[Mapping[str, Any]],
    features: Sequence[str],
    reading: Reading,
    kept: Sequence[str] = (),
) -> TableLines:
    """The columns `features` and `kept` of rows from Python: numbers, texts, dates or None."""
    lines, bad = list[int](), dict[int, str]()
    texts: dict[str, list[str]] = {name: [] for name in (*features, *kept)}
    for number, row in enumerate(rows):
        absent = [name for name in texts if name not in row]
        if absent:
            hint = errors.nearest(absent[0], map(str, row))
            bad[number] = f": has no column {absent[0]!r}{hint}"
            continue
        lines.append(number)
        for name in texts:
            texts[name].append(_as_text(row[name]))
    frame = polars.DataFrame(texts, schema=dict.fromkeys(texts, polars.String))
    return TableLines("", "row", features, (), reading, frame, lines, bad, kept)


def _as_text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # a category 3 that is 3.0 in a data frame
    return "" if value is None else str(value).strip()
