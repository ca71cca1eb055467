"""Reads tables from files, standard input, data frames and mappings."""

import logging
import re
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.data.on_disk import delimited_text, table_files
from andiron.data.on_disk.columns import Columns, Request, is_frame, parsed
from andiron.data.on_disk.table_lines import TableLines

UNNAMED = re.compile(r"Unnamed: \d+(\.\d+|_level_\d+)*|__index_level_\d+__|")  # by pandas
Names = Sequence[str]
log = logging.getLogger("andiron")


def read(source: Any, request: Request) -> Columns:
    """The columns of a table: a path, the content of a file, a data frame, or mappings.

    Raises: DataError naming the lines that cannot be used.
    """
    content = source if isinstance(source, bytes) else None
    path = (source if isinstance(source, Path)
            else Path("the data frame" if content is None else "stdin"))  # fmt: skip
    choose, name = partial(_choice, path, request), ""
    if isinstance(source, Path | bytes):
        name = str(path)
        with table_files.opened(path, content, request.layout.encoding) as file:
            if table_files.is_parquet(path, file):
                table = table_files.of_parquet(path, file, choose)
            else:
                table = delimited_text.table(path, file, request, choose)
    elif is_frame(source):
        table = table_files.of_frame(source, choose)
    else:
        table = table_files.of_mappings(source, request.features or (), request.kept)
    return TableLines(name, table, request).checked()


def _choice(
    path: Path, request: Request, header: Names, index: Collection[str]
) -> tuple[Names, Names]:
    """The features, by default all but the index of pandas, and the further columns."""
    index = [name for place, name in enumerate(header)
             if name in index or UNNAMED.fullmatch(name) and (name or not place)]  # fmt: skip
    others = [*request.texts, *request.kept]
    beside = [*others, *request.exclude]
    for name in (*(request.features or ()), *beside, *request.reading.kinds):
        if name not in header:
            is_data = any(parsed(each) is not None for each in header)
            data = f"; its first line looks like data: {delimited_text.NO_HEADER}"
            hint = errors.nearest(name, header) or data * is_data
            raise errors.DataError(
                f"{path}: has no column {name!r}{hint}; its columns are: {', '.join(header)}"
            )
    features = request.features or [
        name for name in header if name and name not in beside and name not in index
    ]
    if not features:
        raise errors.DataError(
            f"{path}: has no column beside {', '.join(beside)}; there is nothing to learn from"
        )
    left_out = [name for name in index if name not in (*features, *beside)]
    if left_out:
        log.warning(
            "%s: taken for the index of a data frame, and not for a feature: column %s",
            path, ", ".join(map(repr, left_out)),
        )  # fmt: skip
    return features, others
