"""Reads tables from files, standard input, data frames and mappings; suggests options.

A table that cannot be read is tried again with the options that its values suggest, so that one
message has all of them.
"""

import logging
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.data.on_disk import column_values, delimited_text, table_files
from andiron.data.on_disk.columns import Columns, Request, is_frame
from andiron.data.on_disk.table_files import Unreadable
from andiron.data.on_disk.table_lines import TableLines

MOST_ATTEMPTS = 8
UNNAMED = re.compile(r"Unnamed: \d+(\.\d+|_level_\d+)*|__index_level_\d+__|")  # by pandas
Names = Sequence[str]
log = logging.getLogger("andiron")


def read(source: Any, request: Request) -> Columns:
    """The columns of a table: a path, the content of a file, a data frame, or mappings.

    Raises: DataError with all the options that the table needs.
    """
    try:
        return _columns(source, request)
    except Unreadable as error:
        options, was_disabled, log.disabled = dict(error.options), log.disabled, True
        try:
            _add_options(options, source, request)
        finally:
            log.disabled = was_disabled
        if all(name == "missing" or f"data.{name}=" in str(error) for name in options):
            raise
        text = column_values.arguments(options)
        raise errors.DataError(f"{error}\noptions for this table: {text}") from error


def _add_options(options: dict[str, Any], source: Any, request: Request) -> None:
    """Adds to the `options` those that the table needs once they are set."""
    with suppress(errors.DataError):
        for _ in range(MOST_ATTEMPTS):
            try:
                return options.update(_columns(source, request.changed(options)).suggested)
            except Unreadable as error:
                options |= error.options


def _columns(source: Any, request: Request) -> Columns:
    """The columns with the options as they are."""
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
            hint = errors.nearest(name, header) or delimited_text.header_hint(header)
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
