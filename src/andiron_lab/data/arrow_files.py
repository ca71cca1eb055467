"""Arrow files of one schema as rows by place: only their metadata is read when they are opened.

pyarrow parses the metadata in a map of each file, which is closed again; rows are read by position.
"""

import functools
import importlib.util
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from andiron import errors
from andiron.data.on_disk.stored import StoredFile
from andiron.plain import readable
from andiron_lab.data.arrow_columns import Column, Rows, Values
from andiron_lab.data.arrow_types import Mapped, NotReadError, Part, column_of, part_of

MAGIC = b"ARROW1"  # of the file format; the stream format has none
ROWS_AT_ONCE = 2**18  # of a column that is read whole


@dataclass(frozen=True)
class ArrowRows:
    """The rows of files with the same columns, in order.

    `first_rows` [record batches + 1] ends with the number of rows; `file_of` [record batches].
    """

    files: Sequence[StoredFile]
    first_rows: np.ndarray
    file_of: np.ndarray
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return int(self.first_rows[-1])

    def read(self, names: Sequence[str], rows: Tensor) -> dict[str, Values]:
        """These columns of the rows, in this order.

        Raises: DataError if a file changed since it was opened, or cannot be read.
        """
        indices = rows.to(torch.int64).numpy()
        batches = np.searchsorted(self.first_rows, indices, side="right") - 1
        numbers = self.file_of[batches]
        for number in np.unique(numbers).tolist():
            self.files[number].check_unchanged()
        places = Rows(self.files, numbers, batches, indices - self.first_rows[batches])
        return {name: self.columns[name].read(places) for name in names}

    def read_whole(self, name: str) -> Any:
        """All values of a column: a tensor, or a list."""
        parts: list[Any] = [
            self.read([name], rows)[name]
            for rows in torch.split(torch.arange(len(self)), ROWS_AT_ONCE)
        ]
        if isinstance(parts[0], Tensor):
            return torch.cat(parts)
        return [value for part in parts for value in part]

    def first_row(self, file: int) -> int:
        """The first row of the file of a number; of the number of files, the end."""
        return int(self.first_rows[np.searchsorted(self.file_of, file)])

    def row_name(self, row: int) -> str:
        """The file of a row and its number there, counted from 0."""
        file = int(self.file_of[np.searchsorted(self.first_rows, row, side="right") - 1])
        return f"{self.files[file].path.name}:{row - self.first_row(file)}"


def opened(paths: Sequence[Path], names: Sequence[str]) -> ArrowRows:
    """These columns of files in the stream or the file format, as datasets and Feather write them.

    Raises: DataError naming the file and the column that is missing or cannot be read by place.
    """
    _check_pyarrow()
    files, first_rows, file_of = [*map(StoredFile, paths)], [0], list[int]()
    parts: dict[str, list[Part]] = {name: [] for name in names}
    for number, path in enumerate(paths):
        for batch, mapped in _batches(path):
            _check_names(path, names, batch.schema)
            if not len(batch):
                continue
            features = _features((batch.schema.metadata or {}).get(b"huggingface", b"{}"))
            for name in names:
                try:
                    part = part_of(batch.column(name), mapped, features.get(name, {}))
                    _check_alike(part, [*parts[name][:1], part][0])
                except NotReadError as error:
                    raise errors.DataError(f"{path}: column {name!r} {error}") from error
                parts[name].append(part)
            first_rows.append(first_rows[-1] + len(batch))
            file_of.append(number)
    if not file_of:
        raise errors.DataError(f"{paths[0]}: has no row to learn from; name other files")
    columns = {name: column_of(parts[name], first_rows[-1]) for name in names}
    return ArrowRows(files, np.array(first_rows), np.array(file_of), columns)


def _check_pyarrow() -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise errors.DataError(
            "the metadata of Arrow files are read with pyarrow, which is not installed: "
            "pip install 'andiron[arrow]'"
        )


def _batches(path: Path) -> Iterator[tuple[Any, Mapped]]:
    """The record batches of a file, in a map that is closed after the last."""
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as source:
            if not source.size():
                raise errors.DataError(f"{path}: is empty; restore it from a copy")
            mapped = Mapped(source.read_buffer(1).address, source.size())
            source.seek(0)
            is_file = source.read(len(MAGIC)) == MAGIC
            source.seek(0)
            reader = (pa.ipc.open_file if is_file else pa.ipc.open_stream)(source)
            numbers = range(reader.num_record_batches) if is_file else ()
            for batch in map(reader.get_batch, numbers) if is_file else reader:
                yield batch, mapped
    except (pa.ArrowException, OSError, EOFError) as error:
        raise errors.DataError(
            f"{path}: cannot be read as Arrow ({errors.first_line(error)}); name .arrow, .feather "
            "or .ipc files, or a folder of datasets.save_to_disk"
        ) from error


def _check_names(path: Path, names: Sequence[str], schema: Any) -> None:
    for name in names:
        if schema.names.count(name) != 1:
            shown = readable.joined(
                [f"{field.name} ({field.type})" for field in schema], readable.MOST_LISTED
            )
            raise errors.DataError(
                f"{path}: has no single column {name!r}{errors.nearest(name, schema.names)}; its "
                f"columns are: {shown}"
            )


def _check_alike(part: Part, first: Part) -> None:
    """Refuses a part of another type than the first, or whose classes have other numbers."""
    if part.type != first.type:
        raise NotReadError(
            f"has type {part.type}, and in the first file {first.type}; give all files the same"
        )
    if part.classes != first.classes:
        raise NotReadError(
            "has other categories in other record batches; cast it to whole numbers or text"
        )


@functools.lru_cache(maxsize=1)
def _features(content: bytes) -> dict[str, Any]:
    """The features that datasets writes beside its columns; {} for other files."""
    try:
        features = json.loads(content)["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return {}
    named = features.items() if isinstance(features, dict) else ()
    return {name: kind for name, kind in named if isinstance(kind, dict)}
