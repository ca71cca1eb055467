"""Arrow files of one schema as rows by place: only their metadata is read when they are opened.

pyarrow parses the metadata in a map of each file, which is closed again; rows are read by position.
"""

import importlib.util
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from andiron import errors
from andiron.data.on_disk.stored import StoredFile
from andiron.plain import readable
from andiron_lab.data import arrow_types
from andiron_lab.data.arrow_columns import Column, Rows, Values

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
    features: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of datasets

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

    def row_name(self, row: int) -> str:
        """The file of a row and its number there, counted from 0."""
        batch = int(np.searchsorted(self.first_rows, row, side="right")) - 1
        first = int(self.first_rows[np.searchsorted(self.file_of, self.file_of[batch])])
        return f"{self.files[self.file_of[batch]].path.name}:{row - first}"

    def class_names(self, name: str) -> list[str] | None:
        """The names of the classes of a column, of datasets' ClassLabel."""
        names = self.features.get(name, {}).get("names")
        return [*map(str, names)] if isinstance(names, list) else None

    def is_picture(self, name: str) -> bool:
        """Whether a column has encoded pictures, as datasets' Image does."""
        return self.features.get(name, {}).get("_type") == "Image"


def opened(paths: Sequence[Path], names: Sequence[str]) -> ArrowRows:
    """These columns of files in the stream or the file format, as datasets and Feather write them.

    Raises: DataError naming the file and the column that is missing or cannot be read by place.
    """
    _check_pyarrow()
    files, first_rows, file_of = [*map(StoredFile, paths)], [0], list[int]()
    places: dict[str, list[tuple[int, ...]]] = {name: [] for name in names}
    categories: dict[str, Any] = {}
    schema: Any = None
    for number, path in enumerate(paths):
        for batch, mapped in _batches(path):
            if schema is None:
                schema = batch.schema
                _check_names(path, names, schema)
            _check_alike(path, batch.schema, schema, paths[0], names)
            if not len(batch):
                continue
            for name in names:
                try:
                    places[name].append(mapped.places(batch.column(name)))
                    _keep_categories(categories, name, batch.column(name))
                except arrow_types.NotReadError as error:
                    raise errors.DataError(f"{path}: column {name!r} {error}") from error
            first_rows.append(first_rows[-1] + len(batch))
            file_of.append(number)
    if not file_of:
        raise errors.DataError(f"{paths[0]}: has no row to learn from; name other files")
    columns = {
        name: arrow_types.column_of(schema.field(name).type, np.array(places[name]), first_rows[-1])
        for name in names
    }
    features = _features(schema.metadata) | {
        name: {"names": values.to_pylist()} for name, values in categories.items()
    }
    return ArrowRows(files, np.array(first_rows), np.array(file_of), columns, features)


@dataclass(frozen=True)
class _Map:
    """The addresses of a mapped file."""

    base: int
    size: int

    def places(self, array: Any) -> tuple[int, ...]:
        """The places of an array's numbers; of lists, of offsets and contents, and the first and
        the last offset.

        Raises: arrow_types.NotReadError for missing values, and buffers that are not in the file.
        """
        import pyarrow as pa

        if pa.types.is_struct(array.type):
            _check_whole(array)
            array = array.field(arrow_types.FIELD_OF_PICTURES)
        while pa.types.is_fixed_size_list(array.type):
            _check_whole(array)
            array = array.values
        _check_whole(array)
        _, first, *rest = array.buffers()
        begin = self._place(first)
        if not rest:
            return (begin,)
        if pa.types.is_nested(array.type):
            _check_whole(array.values)
        offsets = np.frombuffer(first, dtype=f"<i{arrow_types.offset_bytes(array.type)}")
        return begin, self._place(rest[-1]), int(offsets[0]), int(offsets[len(array)])

    def _place(self, buffer: Any) -> int:
        if buffer is None or not buffer.size:
            return 0
        place = buffer.address - self.base
        if not 0 <= place <= self.size - buffer.size:
            raise arrow_types.NotReadError(
                "is compressed, or big-endian, and rows are read by place; write the file "
                "without: pyarrow.feather.write_feather(table, path, compression='uncompressed')"
            )
        return int(place)


def _check_whole(array: Any) -> None:
    if array.null_count:
        row = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
        raise arrow_types.NotReadError(
            f"has {array.null_count} missing values in a record batch, the first in its row {row}; "
            "fill them, or leave those rows out"
        )


def _keep_categories(categories: dict[str, Any], name: str, array: Any) -> None:
    """Keeps the categories of a column, which all record batches number alike."""
    values = getattr(array, "dictionary", None)
    if values is not None and not values.equals(categories.setdefault(name, values)):
        raise arrow_types.NotReadError(
            "has other categories in other record batches; cast it to whole numbers or text"
        )


def _check_pyarrow() -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise errors.DataError(
            "the metadata of Arrow files are read with pyarrow, which is not installed: "
            "pip install 'andiron[arrow]'"
        )


def _batches(path: Path) -> Iterator[tuple[Any, _Map]]:
    """The record batches of a file, in a map that is closed after the last."""
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as source:
            if not source.size():
                raise errors.DataError(f"{path}: is empty; restore it from a copy")
            mapped = _Map(source.read_buffer(1).address, source.size())
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
        try:
            arrow_types.kind_of(schema.field(name).type)
        except arrow_types.NotReadError as error:
            raise errors.DataError(f"{path}: column {name!r} {error}") from error


def _check_alike(path: Path, schema: Any, first: Any, of: Path, names: Sequence[str]) -> None:
    for name in names:
        known = schema.get_field_index(name) >= 0
        if not known or schema.field(name).type != first.field(name).type:
            kind = schema.field(name).type if known else "missing"
            raise errors.DataError(
                f"{path}: column {name!r} is {kind}, and in {of} {first.field(name).type}; give "
                "all files the same columns"
            )


def _features(metadata: Any) -> dict[str, Any]:
    """The features that datasets writes beside its columns; {} for other files."""
    try:
        features = json.loads((metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return {}
    named = features.items() if isinstance(features, dict) else ()
    return {name: kind for name, kind in named if isinstance(kind, dict)}
